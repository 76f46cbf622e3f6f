"""docs/variables.md: the environment variables, from the table that `doctor` checks."""

from collections.abc import Iterator

from agentforge.model.variables import GIVEN, SUBJECTS, VARIABLES, Variable

KINDS = {
    "text": "text",
    "folder": "a folder",
    "file": "a file",
    "provider": "a provider",
    "seconds": "seconds",
    "number": "a whole number",
    "time": "a time, such as `2026-01-31T12:00:00Z`",
    "list": "a list",
    "mapping": "a mapping in YAML or JSON",
}
INTRODUCTION = """\
# Environment variables

Use this page to look up the environment variables that AgentForge reads. `agentforge doctor` checks the
values of those that are set. Options of the command line have precedence over variables. Paths are relative
to the project.

This page is generated from `src/agentforge/model/variables.py` by `make docs`.
"""
GIVEN_TEXT = """
## Variables that AgentForge sets

AgentForge sets these variables for every agent that is a program, and where it says so for
other programs. Which of your own variables an agent gets is described in [providers](providers.md) and
[sandboxes](sandboxes.md).

| variable | value |
|---|---|
"""


def variables_page() -> str:
    return "".join(
        [INTRODUCTION, *_sections(), GIVEN_TEXT, *(f"| `{v.name}` | {v.meaning} |\n" for v in GIVEN)]
    )


def _sections() -> Iterator[str]:
    for subject, title in SUBJECTS.items():
        yield f"\n## {title}\n\n| variable | meaning | value | default |\n|---|---|---|---|\n"
        for variable in VARIABLES:
            if variable.subject == subject:
                default = variable.default or "not set"
                yield f"| `{variable.name}` | {variable.meaning} | {_value(variable)} | {default} |\n"


def _value(variable: Variable) -> str:
    return ", ".join(f"`{value}`" for value in variable.values) or KINDS[variable.kind]
