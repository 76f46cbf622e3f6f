"""How our program is started, so that nothing in the workspace or the environment stands in for our code."""

import os

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.py")


def program_argv(python: str, *arguments: str) -> tuple[str, ...]:
    """`-P`: neither the current folder nor the script's is searched for modules; `-E`: nor is PYTHONPATH."""
    return (python, "-P", "-E", PROGRAM, *arguments)
