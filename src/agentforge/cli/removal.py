"""Deletes runs after a confirmation: shared by `rm` and `clean`."""

import sys
from collections.abc import Sequence
from datetime import datetime

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import Invocation
from agentforge.cli.output import echo, print_json, show_error
from agentforge.model.errors import AgentForgeError, InvalidRequest

yes_option = click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")


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
    from agentforge.cli.controls import open_engine

    removed: list[str] = []
    failed: dict[str, AgentForgeError] = {}
    with open_engine(call) as engine:
        for session in sessions:
            try:
                if engine.remove(session, ended_before=ended_before):
                    removed.append(session)
            except AgentForgeError as error:
                failed[session] = error
    if call.as_json:
        errors = [{"session": name, "message": error.message} for name, error in failed.items()]
        print_json({"removed": removed, "failed": errors})
    for session in removed if not call.as_json else ():
        echo(f"Deleted session '{session}'.")
    codes = [show_error(error, as_json=False, program=call.program) for error in failed.values()]
    return exit_codes.worst(codes)
