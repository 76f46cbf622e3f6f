"""`agentforge clean`: delete old runs."""

import re
from datetime import UTC, datetime, timedelta

import click

from agentforge.cli import exit_codes
from agentforge.cli.commands.list_runs import table
from agentforge.cli.invocation import Invocation, engine_options, invocation
from agentforge.cli.output import echo, note, print_json
from agentforge.cli.removal import confirm_or_refuse, remove_all, yes_option
from agentforge.views.text import counted

UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
MAX_COUNT = 10_000


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
    from agentforge.cli.controls import open_engine

    call = invocation()
    now = datetime.now(UTC)
    with open_engine(call) as engine:
        found = engine.outdated(now - older_than)
    _note_foreign(call, [row.session for row in found.foreign])
    names = [row.session for row in found.own]
    if dry_run and call.as_json:
        print_json({"removed": [], "would_remove": names})
        return exit_codes.COMPLETED
    if not names:
        if call.as_json:
            print_json({"removed": [], "failed": []})
        else:
            echo("Nothing to delete: no completed or cancelled run is that old.")
        return exit_codes.COMPLETED
    if not call.as_json and (dry_run or not yes):
        echo(*table(found.own, now, call.program))
    if dry_run:
        echo(f"{counted(len(names), 'run')} would be deleted.")
        return exit_codes.COMPLETED
    confirm_or_refuse(call, f"Delete {counted(len(names), 'run')}?", yes=yes)
    return remove_all(call, names, ended_before=now - older_than)


def _note_foreign(call: Invocation, names: list[str]) -> None:
    if names:
        listed = ", ".join(f"'{name}'" for name in names[:5])
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        note(
            f"Kept {counted(len(names), 'run')} not started by you on this machine: {listed}{more}. "
            f"`{call.program} rm SESSION` deletes one."
        )
