"""`agentforge rm` and `agentforge clean`: delete runs."""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from agentforge.cli import exit_codes
from agentforge.cli.commands.status import table
from agentforge.cli.controls import open_engine
from agentforge.cli.invocation import Invocation, engine_options, invocation
from agentforge.cli.output import echo, note, print_json, show_error
from agentforge.model.errors import AgentForgeError, InvalidRequest, UnknownRun
from agentforge.model.status import status_text
from agentforge.views.text import age, counted

if TYPE_CHECKING:
    from agentforge import RunRow

yes_option = click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")


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
            about = "did not start"
            if row is not None:
                about = f"{status_text(row.status, row.requests)}, {counted(row.iterations, 'iteration')}, "
                about += age((now - row.updated_at).total_seconds())
            echo(f"  {name}: {about}")
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


UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
MAX_COUNT = 10_000
MAX_NAMED = 5


def _age(context: click.Context, parameter: click.Parameter, value: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,5})([mhdw])", value)
    if found is None or int(found[1]) > MAX_COUNT:
        text = f"must be a number up to {MAX_COUNT:,} and a unit (m, h, d, w), as in 30d, got '{value}'"
        raise click.BadParameter(text, context, parameter)
    return timedelta(**{UNITS[found[2]]: int(found[1])})


@click.command()
@click.option(
    "--older-than",
    metavar="AGE",
    callback=_age,
    required=True,
    help="Delete runs that ended longer ago than this, such as 12h, 30d or 8w.",
)
@click.option("--dry-run", is_flag=True, help="Only list what would be deleted.")
@yes_option
@engine_options
def clean(older_than: timedelta, dry_run: bool, yes: bool) -> int:
    """Delete old completed and cancelled runs.

    Lists them first and asks for confirmation. Paused, failed and interrupted runs are kept, and so are runs
    that were not started by you on this machine: `agentforge rm SESSION` deletes one.
    """
    call = invocation()
    now = datetime.now(UTC)
    with open_engine(call) as engine:
        found = engine.outdated(now - older_than)
    if foreign := [row.session for row in found.foreign]:
        listed = ", ".join(f"'{name}'" for name in foreign[:MAX_NAMED])
        more = f" and {len(foreign) - MAX_NAMED} more" if len(foreign) > MAX_NAMED else ""
        note(
            f"Kept {counted(len(foreign), 'run')} not started by you on this machine: {listed}{more}. "
            f"`{call.program} rm SESSION` deletes one."
        )
    names = [row.session for row in found.own]
    if dry_run and call.as_json:
        print_json({"removed": [], "would_remove": names})
        return exit_codes.COMPLETED
    if not names:
        nothing = "Nothing to delete: no completed or cancelled run is that old."
        call.report({"removed": [], "failed": []}, nothing)
        return exit_codes.COMPLETED
    if not call.as_json and (dry_run or not yes):
        echo(*table(found.own, now, call.program))
    if dry_run:
        echo(f"{counted(len(names), 'run')} would be deleted.")
        return exit_codes.COMPLETED
    confirm_or_refuse(call, f"Delete {counted(len(names), 'run')}?", yes=yes)
    return remove_all(call, names, ended_before=now - older_than)


def confirm_or_refuse(call: Invocation, question: str, *, yes: bool) -> None:
    """Raises InvalidRequest without a terminal to ask, and Abort if the answer is no."""
    if yes:
        return
    if call.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidRequest(
            "can't ask for confirmation without a terminal", hint="add --yes to delete without asking"
        )
    if not click.confirm(question, err=True):
        raise InvalidRequest("nothing was deleted")


def remove_all(call: Invocation, sessions: Sequence[str], ended_before: datetime | None = None) -> int:
    """Delete the runs; a failure of one doesn't affect the others. Returns the exit status."""
    removed: list[str] = []
    failed: dict[str, AgentForgeError] = {}
    with open_engine(call) as engine:
        for session in sessions:
            try:
                # The engine looks at the time again: a run may have been resumed since it was listed.
                if engine.remove(session, ended_before=ended_before):
                    removed.append(session)
            except AgentForgeError as error:
                failed[session] = error
    errors = [{"session": name, "message": error.message} for name, error in failed.items()]
    if removed or call.as_json:
        call.report({"removed": removed, "failed": errors}, *(f"Deleted session '{one}'." for one in removed))
    codes = [show_error(error, as_json=False, program=call.program) for error in failed.values()]
    return exit_codes.worst(codes)
