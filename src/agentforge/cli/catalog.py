"""What there is here: `list` the runs, `stages`, `pipelines`, and `providers`, with the reason why one can't
be used."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import invocation, looking
from agentforge.cli.output import hanging, marked, print_json, styled
from agentforge.views.lines.status import STATUS_TONES
from agentforge.views.text import age, one_line, padded, width

if TYPE_CHECKING:
    from agentforge.app.providers.readiness import ProviderInfo
    from agentforge.app.results import RunRow
    from agentforge.definition.resolve import Available
    from agentforge.ports.provider import Capabilities


@click.command("list")
@click.argument("count", type=click.IntRange(min=1), default=10)
@looking
def list_runs(count: int) -> None:
    """List the latest runs, the latest first. `runs` is the same command."""
    call = invocation()
    rows = call.runs.rows(count)
    if call.as_json:
        print_json(rows)
        return
    if not rows:
        click.echo(f"No runs yet in {call.root}")
        click.echo("  Begin one: agentforge run -p FILE")
        return
    for line in _table(rows, datetime.now(UTC)):
        click.echo(line)


def _table(rows: "list[RunRow]", now: datetime) -> list[str]:
    sessions = max(20, *(width(row.session) for row in rows))
    statuses = max(10, *(len(row.status) for row in rows))
    head = f"  {padded('SESSION', sessions)} {'STATUS':<{statuses}} {'AGE':<12} STAGE"
    lines = [styled(head, "strong")]
    for row in rows:
        shown = styled(f"{row.status:<{statuses}}", STATUS_TONES.get(row.status, "plain"))
        since = age((now - row.updated_at).total_seconds())
        iterations = f"({row.iterations} iter{'' if row.iterations == 1 else 's'})"
        stage = f"{row.stage} {iterations}" if row.stage else ""
        lines.append(f"  {padded(row.session, sessions)} {shown} {since:<12} {stage}".rstrip())
    return lines


@click.command()
@looking
def stages() -> None:
    """List the stages that can be run.

    Run one with `agentforge STAGE [SESSION] [MAX]`.
    """
    from agentforge.app.definitions import Definitions

    _show(Definitions(invocation().root, os.environ).stages(), "stages", ".claude/stages/NAME/stage.yaml")


@click.command()
@looking
def pipelines() -> None:
    """List the pipelines that have a name.

    Run one with `agentforge run -p NAME`.
    """
    from agentforge.app.definitions import Definitions

    _show(Definitions(invocation().root, os.environ).pipelines(), "pipelines", ".claude/pipelines/NAME.yaml")


def _show(found: "Sequence[Available]", what: str, where: str) -> None:
    if invocation().as_json:
        print_json(found)
        return
    if not found:
        click.echo(f"No {what} here yet: write one in {where}")
        return
    columns = max(width(one.name) for one in found)
    for one in found:
        described = one_line(one.description, 90)
        click.echo(f"  {styled(padded(one.name, columns), 'strong')}  {described}".rstrip())


@click.command()
@looking
def providers() -> None:
    """List the providers that stages can name.

    Built in, described in .agentforge/providers/, or offered by an installed package (the entry point group
    agentforge.providers). Each is set up to see whether it can be used here; none is given any work.
    """
    import asyncio

    found = asyncio.run(_look(invocation().root))
    if invocation().as_json:
        print_json(found)
        return
    columns = max(width(info.name) for info in found)
    for info in found:
        click.echo("\n".join(_lines(info, columns)))


async def _look(project: str) -> "Sequence[ProviderInfo]":
    from agentforge.sdk.engine import Engine

    async with Engine(project, environ=os.environ) as engine:
        return await engine.providers()


def _lines(info: "ProviderInfo", columns: int) -> list[str]:
    mark = marked("ok" if info.usable else "broken")
    origin = info.origin if info.origin == "built in" else f"{info.origin}: {info.place}"
    said = "; ".join(_abilities(info.capabilities)) if info.capabilities else ""
    about, indent = f"{origin} · {said}" if said else origin, columns + 6
    lines = [f"  {mark} {styled(padded(info.name, columns), 'strong')}  {hanging(about, indent)}"]
    if info.problem:
        lines.append(" " * indent + hanging(info.problem, indent))
    if info.fix:
        lines.append(" " * indent + hanging(f"fix: {info.fix}", indent, "busy"))
    return lines


def _abilities(found: "Capabilities") -> list[str]:
    """What there is to say beside that it works."""
    said = {
        "tools": found.supports_tools,
        "reasoning effort": found.supports_reasoning_control,
        "resumes sessions": found.supports_resume,
        "needs a sandbox": found.requires_sandbox,
        "one call at a time": not found.concurrent,
    }
    shown = [", ".join(words for words, is_so in said.items() if is_so)]
    if found.supported_models:
        shown.append(f"models: {', '.join(found.supported_models)}")
    return [words for words in shown if words]
