"""`agentforge rm`: delete runs."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import Invocation, engine_options, invocation
from agentforge.cli.output import echo
from agentforge.cli.removal import confirm_or_refuse, remove_all, yes_option
from agentforge.model.errors import UnknownRun
from agentforge.model.status import status_text
from agentforge.views.text import age, counted

if TYPE_CHECKING:
    from agentforge import RunRow


@click.command()
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True)
@yes_option
@engine_options
def rm(sessions: tuple[str, ...], yes: bool) -> int:
    """Delete runs that are not running.

    Deletes the log, the outputs and everything else below .claude/pipeline-runs/SESSION, after confirmation.
    Files that agents changed in the project stay as they are.
    """
    call = invocation()
    names = list(dict.fromkeys(sessions))
    rows = [_row(call, name) for name in names]
    if not yes and not call.as_json:
        now = datetime.now(UTC)
        for name, row in zip(names, rows, strict=True):
            echo(f"  {_described(name, row, now)}")
    confirm_or_refuse(call, f"Delete {counted(len(names), 'run')}?", yes=yes)
    return remove_all(call, names)


def _row(call: Invocation, session: str) -> "RunRow | None":
    """None for a run that did not start."""
    runs = call.runs
    try:
        runs.log(session)
    except UnknownRun:
        if any(reason.session == session for reason in runs.stopped()):
            return None
        raise
    return runs.row(session)


def _described(name: str, row: "RunRow | None", now: datetime) -> str:
    if row is None:
        return f"{name}: did not start"
    since = age((now - row.updated_at).total_seconds())
    return f"{name}: {status_text(row.status, row.requests)}, {counted(row.iterations, 'iteration')}, {since}"
