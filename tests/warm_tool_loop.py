"""The process from which those of the provider api's tool loop are forked (`tests/fork_server.py`): importing
the libraries of models takes most of the time of a short task.

How the program starts, gets its key, and is ended is tested with processes of its own.
"""

import os
import sys

from fork_server import run_and_exit, serve


def main() -> None:
    """Called like Python with its options and the program."""
    *_, word, variable = [*sys.argv, ""][:6]
    assert word == "run"
    sys.exit(run(os.environ.pop(variable, "")))


if __name__ == "__main__":
    del sys.path[0]  # The folders of tests, too, have names of modules.
    # Most tests that fork use this one.
    from pydantic_ai.models import openai  # noqa: F401

    from agentforge.tool_loop.loop import run

    serve()
    run_and_exit(main)
