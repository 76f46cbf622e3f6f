"""What commands need that control runs without a display: an engine, the trust of a person, and the words."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import Invocation
from agentforge.cli.output import note, show_executions
from agentforge.model.errors import UntrustedRun
from agentforge.views.lines.status import program_text
from agentforge.views.status import needed_hooks

if TYPE_CHECKING:
    from agentforge import Engine, RunInfo, SyncEngine


def open_engine(call: Invocation) -> "SyncEngine":
    from agentforge import SyncEngine
    from agentforge.cli.log_output import set_up_logs

    set_up_logs(call)
    return SyncEngine(call.root)


@contextmanager
def engine_for(call: Invocation, session: str, *, trust: bool) -> "Iterator[SyncEngine]":
    """An engine for a run that was started here, or that the person trusts now."""
    trusted = ask_for_trust(call, session, given=trust)
    with open_engine(call) as engine:
        if trusted:
            engine.trust(session)
        yield engine


def continued_by(info: "RunInfo", command: str) -> str:
    """What continues the run: the command, or the program that has its hook functions."""
    hooks = needed_hooks(info.plan, info.state)
    return program_text(hooks) if hooks else f"`{command}`"


def pause_text(session: str, *, driven: bool, now: bool = False) -> str:
    """What was asked for. `driven`: whether the run has an engine."""
    if not driven:
        return f"Session '{session}' has no active engine; it will pause as soon as it is recovered."
    return f"Session '{session}' will pause {'now' if now else 'after its current iteration'}."


def cancel_text(session: str, *, cancelled: bool) -> str:
    if cancelled:
        return f"Cancelled session '{session}'."
    return f"Cancelling session '{session}': its engine is stopping the agent."


trust_option = click.option(
    "--trust", is_flag=True, help="Allow a run that was not started here to run the programs in its log."
)


def ask_for_trust(call: Invocation, session: str, *, given: bool) -> bool:
    """Whether the person trusts the run, by --trust or on the terminal; False if there is no need to ask.
    Raises UntrustedRun if the person doesn't, or can't be asked."""
    if given:
        return True
    from agentforge import Engine
    from agentforge.cli.log_output import set_up_logs

    set_up_logs(call)
    try:
        Engine(call.root).refuse_untrusted(session)
    except UntrustedRun as error:
        # The question goes to stderr, as a program may read stdout.
        if call.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        show_executions(error.executes)
        note(f"{error.message[0].upper()}{error.message[1:]}.")
        if not click.confirm("Trust it and continue?", err=True):
            raise UntrustedRun(error.message, hint="nothing was changed") from error
        return True
    return False


def trust_existing(engine: "Engine", session: str) -> None:
    """Trust the run of that name, if there is one."""
    if session in engine.runs.sessions():
        engine.trust(session)
