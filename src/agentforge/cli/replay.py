"""`agentforge replay`: a recorded run without its agents, or only whether it would go the same way."""

from typing import TYPE_CHECKING, Any

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import Invocation, driving, invocation
from agentforge.cli.output import note, print_json, styled
from agentforge.views.durations import counted
from agentforge.views.plain_text import one_line
from agentforge.views.route_words import difference_words, route_lines

if TYPE_CHECKING:
    from agentforge.sdk.rehearsing import RouteCheck


@click.command()
@click.argument("source", metavar="SESSION")
@click.option(
    "-p", "--pipeline", metavar="PIPELINE|FILE", help="Another pipeline.  [default: that of the run]"
)
@click.option("--check", is_flag=True, help="Only say whether the run would go the same way.")
@driving
def replay(*, source: str, pipeline: str | None, check: bool) -> int:
    """Compare a past run with its pipeline as it is now.

    With --check nothing is run and nothing is written: the run's log is rehearsed with the pipeline as it
    is now, or with another. Every answer that agents, judges and people gave is taken from the log. Exit
    status 0 means the same route, 1 another one.
    """
    call = invocation()
    if not check:
        raise click.UsageError("say --check: agentforge replay SESSION --check")
    return _check(call, source, pipeline)


def _check(call: Invocation, source: str, pipeline: str | None) -> int:
    from agentforge.cli.log_output import set_up_logs
    from agentforge.sdk.engine import Engine
    from agentforge.sdk.rehearsing import check_route

    set_up_logs(call)
    found = check_route(Engine(call.root), source, pipeline)
    if call.as_json:
        print_json(_fields(found))
    else:
        _print(found)
    return exit_codes.COMPLETED if found.is_same else exit_codes.FAILED


def _print(found: "RouteCheck") -> None:
    for damage in found.damage:
        note(f"line {damage.line} of the log is damaged and left out: {one_line(damage.reason)}")
    name, route = f"session '{found.session}'", found.rehearsal
    if found.is_same:
        iterations = sum(turn.what == "answer" for turn in route.past)
        amount = counted(iterations, "iteration")
        click.echo(f"{styled('✓ same route', 'good')}: {name} by {found.pipeline} ({amount})")
        return
    click.echo(f"{styled('✗ another route', 'bad')}: {name} by {found.pipeline}")
    click.echo(f"  {difference_words(route)}")
    for title, turns in (("The past run:", route.past), ("This pipeline:", route.now)):
        click.echo(styled(title, "dim"))
        for line in route_lines(turns):
            click.echo(f"  {line}")


def _fields(found: "RouteCheck") -> dict[str, Any]:
    route = found.rehearsal
    return {
        "session": found.session,
        "pipeline": found.pipeline,
        "same": found.is_same,
        "difference": route.difference,
        "words": difference_words(route),
        "unrecorded": route.unrecorded,
        "past": route.past,
        "now": route.now,
        "damage": found.damage,
    }
