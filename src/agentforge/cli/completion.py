"""Names that a shell completes: commands, and the sessions, stages, pipelines and open requests of the
project.

A callback is quick, prints nothing and never fails. It offers only names that mean nothing to a shell, since
a repository chooses the names of its stages and pipelines.
"""

import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from agentforge.cli.invocation import MAX_CANDIDATES, invocation
from agentforge.model.plan import StageNode

if TYPE_CHECKING:
    from agentforge import Definitions

MAX_NAMES = 500
Find = Callable[[click.Context], Iterable[str]]
_HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,/+@-]{0,199}")


class Names(click.types.StringParamType):
    """A word that is completed with names."""

    def __init__(self, find: Find, *, or_file: bool = False) -> None:
        self._find = find
        self._or_file = or_file

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - Click's
        incomplete: str,
    ) -> list[CompletionItem]:
        # First: the script of bash drops what comes before it.
        files = [CompletionItem(incomplete, type="file")] if self._or_file else []
        return [*files, *names_for(ctx, self._find, incomplete)]


def names_for(ctx: click.Context, find: Find, incomplete: str) -> list[CompletionItem]:
    try:
        names = list(find(ctx))
    except Exception:
        return []
    fitting = (name for name in names if name.startswith(incomplete) and _HARMLESS.fullmatch(name))
    return [CompletionItem(name) for name, _ in zip(fitting, range(MAX_NAMES), strict=False)]


def sessions(ctx: click.Context) -> Iterable[str]:
    return invocation(ctx).runs.sessions()


def _definitions(ctx: click.Context) -> "Definitions":
    from agentforge import Definitions

    return Definitions(invocation(ctx).root, os.environ)


def stages(ctx: click.Context) -> Iterable[str]:
    return _definitions(ctx).stage_names()


def stages_of_session(ctx: click.Context) -> Iterable[str]:
    """Those of the run that is named before, as `show` takes them."""
    from agentforge import Runs

    plan = Runs(invocation(ctx).root, os.environ).info(ctx.params["session"]).plan
    for step in plan.steps:
        if isinstance(step.node, StageNode):
            yield step.node.id
        else:
            yield from (f"{stage.id}@{one.provider}" for one in step.node.branches for stage in one.stages)


def requests(ctx: click.Context) -> Iterable[str]:
    """The open ones of the latest runs."""
    from agentforge import Runs

    rows = Runs(invocation(ctx).root, os.environ).rows(MAX_CANDIDATES)
    return [request.id for row in rows for request in row.requests]


def definitions(ctx: click.Context) -> Iterable[str]:
    known = _definitions(ctx)
    return sorted({*known.stage_names(), *known.pipeline_names()})


PARAMETERS = {
    "session": Names(sessions),
    "sessions": Names(sessions),
    "source": Names(sessions, or_file=True),
    "stage": Names(stages),
    "request": Names(requests),
    "pipeline": Names(lambda ctx: _definitions(ctx).pipeline_names(), or_file=True),
    "file": Names(lambda ctx: _definitions(ctx).pipeline_names(), or_file=True),
    "name": Names(definitions, or_file=True),
    "words": Names(lambda ctx: ["loop", "pipeline", *definitions(ctx)], or_file=True),
    "kind": Names(lambda _: ["loop", "pipeline", "stage"], or_file=True),
}
"""By the name of an argument or option of any command."""
OF_SHOW = {**PARAMETERS, "stage": Names(stages_of_session)}
OF_ANSWERS = {**PARAMETERS, "session": Names(lambda ctx: [*sessions(ctx), *requests(ctx)])}
"""For commands that take a session or a request."""


def complete_names(command: click.Command) -> None:
    """Give the parameters of a command their names."""
    if any(parameter.name == "request" for parameter in command.params):
        known = OF_ANSWERS
    else:
        known = OF_SHOW if command.name == "show" else PARAMETERS
    for parameter in command.params:
        names = known.get(parameter.name or "")
        if names is not None and type(parameter.type) is click.types.StringParamType:
            parameter.type = names
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            complete_names(inner)
