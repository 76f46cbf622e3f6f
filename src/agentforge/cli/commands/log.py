"""`agentforge log`: check whether a run's log is intact, and export its spans."""

from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from agentforge.cli import exit_codes
from agentforge.cli.invocation import choose_session_to_show, invocation, project_options
from agentforge.cli.output import echo_wrapped, print_json, styled
from agentforge.views.text import counted, one_line

if TYPE_CHECKING:
    from agentforge import LogReport


MAX_LINES = 20
LIMITS = "This finds accidental damage, not tampering: anyone who can edit the file can recompute its hashes."


@click.group()
def log() -> None:
    """Inspect a run's event log."""


@log.command()
@click.argument("session", required=False)
@project_options
def verify(session: str | None) -> int:
    """Verify that a run's log is undamaged.

    Reads every line, the hash chain and the payload files. Finds accidental damage (lost, duplicated, swapped
    or edited lines), not tampering.
    """
    call = invocation()
    name = choose_session_to_show(call, session)
    report = call.runs.verify(name)
    if call.as_json:
        print_json({"session": name, "intact": report.is_intact, **asdict(report)})
    else:
        _print(name, report)
    return exit_codes.COMPLETED if report.is_intact else exit_codes.FAILED


@log.command()
@click.argument("session", required=False)
@project_options
def spans(session: str | None) -> None:
    """Export the spans of a run to an OpenTelemetry collector.

    The variables OTEL_* say where it is, by default http://localhost:4318. If one of them names a collector,
    runs export their spans themselves. This exports all that have ended, with the same ids.
    """
    from agentforge import export_spans

    call = invocation()
    name = choose_session_to_show(call, session)
    count = export_spans(call.runs, name)
    if call.as_json:
        print_json({"session": name, "exported": count})
    else:
        echo_wrapped(f"Exported {counted(count, 'span')} of session '{name}'")


def _print(name: str, report: "LogReport") -> None:
    amount = f"{counted(report.events, 'event')} on {counted(report.lines, 'line')}"
    if report.is_intact:
        echo_wrapped(f"{styled('✓ intact', 'good')}: the log of session '{name}' has {amount}")
    else:
        lost = counted(len(report.damage), "damaged line")
        echo_wrapped(f"{styled('✗ damaged', 'bad')}: the log of session '{name}' has {amount}, {lost}")
    for damage in report.damage[:MAX_LINES]:
        echo_wrapped(f"  line {damage.line}: {one_line(damage.reason)}")
    if len(report.damage) > MAX_LINES:
        echo_wrapped(f"  and {len(report.damage) - MAX_LINES} more")
    if report.payloads:
        echo_wrapped(f"  {counted(report.payloads, 'payload file')}")
    if report.torn is not None:
        echo_wrapped(
            f"  {report.torn.bytes} bytes of an incomplete last line, which the next engine archives"
        )
    if report.damage:
        echo_wrapped("  to continue without these lines, resume the run with --accept-damage")
    echo_wrapped(f"  head: event {report.head.seq}, {report.head.hash}")
    echo_wrapped(styled(LIMITS, "dim"))
