"""A run's log: `log verify` says whether it is whole, `tail` shows its events as they are written."""

from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from agentforge.cli import exit_codes
from agentforge.cli.invocation import choose_session_to_show, invocation, project_options
from agentforge.cli.output import print_json, styled
from agentforge.views.text import counted, one_line

if TYPE_CHECKING:
    from agentforge import LogReport


SHOWN_LINES = 20
LIMITS = "This finds accidents, not tampering: whoever can write the file can write a chain that fits."


@click.group()
def log() -> None:
    """Look at the log of a run, the one file that matters."""


@log.command()
@click.argument("session", required=False)
@project_options
def verify(session: str | None) -> int:
    """Check every line of a run's log, its chain, and the data that lies beside it.

    Finds accidents (lost, doubled, swapped or edited lines), not tampering.
    """

    call = invocation()
    name = choose_session_to_show(call, session)
    report = call.runs.verify(name)
    if call.as_json:
        print_json({"session": name, "intact": report.is_intact, **asdict(report)})
    else:
        _print(name, report)
    return exit_codes.COMPLETED if report.is_intact else exit_codes.FAILED


def _print(name: str, report: "LogReport") -> None:
    amount = f"{counted(report.events, 'event')} on {counted(report.lines, 'line')}"
    if report.is_intact:
        click.echo(f"{styled('✓ intact', 'good')}: the log of session '{name}' holds {amount}")
    else:
        lost = counted(len(report.damage), "damaged line")
        click.echo(f"{styled('✗ damaged', 'bad')}: the log of session '{name}' holds {amount}, {lost}")
    for damage in report.damage[:SHOWN_LINES]:
        click.echo(f"  line {damage.line}: {one_line(damage.reason)}")
    if len(report.damage) > SHOWN_LINES:
        click.echo(f"  and {len(report.damage) - SHOWN_LINES} more")
    if report.payloads:
        click.echo(f"  {counted(report.payloads, 'payload')} beside the log")
    if report.torn is not None:
        click.echo(f"  {report.torn.bytes} bytes of a torn last line, which the next run puts aside")
    click.echo(f"  head: event {report.head.seq}, {report.head.hash}")
    click.echo(styled(LIMITS, "dim"))
