"""`agentforge stages` and `agentforge pipelines`: list the definitions of a project."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import invocation, project_options
from agentforge.cli.output import echo, echo_wrapped, print_json, styled
from agentforge.views.text import one_line, padded, width

if TYPE_CHECKING:
    from agentforge import Available

FIRST = frozenset(("work", "improve-plan", "test-scanner", "idea-wizard", "docs-improve", "ideate"))
"""Built-in definitions that make sense alone, in any project."""


@click.command()
@project_options
def stages() -> None:
    """List the available stages.

    Run one with `agentforge STAGE [SESSION] [MAX]`.
    """
    from agentforge import Definitions

    _show(Definitions(invocation().root, os.environ).stages(), "stages", ".claude/stages/NAME/stage.yaml")


@click.command()
@project_options
def pipelines() -> None:
    """List the named pipelines.

    Run one with `agentforge run -p NAME`.
    """
    from agentforge import Definitions

    _show(Definitions(invocation().root, os.environ).pipelines(), "pipelines", ".claude/pipelines/NAME.yaml")


def _show(found: "Sequence[Available]", what: str, where: str) -> None:
    if invocation().as_json:
        print_json(found)
        return
    if not found:
        echo(f"No {what} yet; create one in {where}")
        return
    columns = max(width(one.name) for one in found)
    for title, some in _groups(found):
        echo(styled(f"{title}:", "dim"))
        for one in some:
            described = one_line(one.description, 90)
            line = f"  {styled(padded(one.name, columns), 'strong')}  {described}".rstrip()
            echo_wrapped(line, indent=columns + 4)


def _groups(found: "Sequence[Available]") -> "Iterator[tuple[str, list[Available]]]":
    """What belongs to the project or to the user first; then what a first run needs."""
    own = [one for one in found if not one.is_builtin]
    first = [one for one in found if one.is_builtin and one.name in FIRST]
    others = [one for one in found if one.is_builtin and one.name not in FIRST]
    groups = (("Yours", own), ("Built in", first), ("Built in, from agent-pipelines", others))
    yield from ((title, some) for title, some in groups if some)
