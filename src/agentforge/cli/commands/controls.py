"""`agentforge pause`, `steer`, `cancel` and `abort`: control a run, whether an engine drives it or not."""

import click

from agentforge.cli.controls import cancel_text, engine_for, open_engine, pause_text, trust_option
from agentforge.cli.invocation import OPEN_STATUSES, choose_session, engine_options, invocation, options_of


@click.command()
@click.argument("session", required=False)
@click.option("--now", is_flag=True, help="Stop the agent instead of letting it finish its iteration.")
@click.option("--reason", default="requested", show_default=True, help="Reason to record.")
@engine_options
def pause(session: str | None, now: bool, reason: str) -> None:
    """Pause a run after its current iteration.

    `agentforge resume` resumes it.
    """
    call = invocation()
    name = choose_session(call, session, {"running", "interrupted"}, "to pause")
    with open_engine(call) as engine:
        engine.pause(name, reason, now=now)
    driven = call.runs.info(name).status == "running"
    shown = {"session": name, "asked": "pause", "now": now, "driven": driven}
    call.report(shown, pause_text(name, driven=driven, now=now))


@click.command()
@click.argument("words", metavar="[SESSION] TEXT", nargs=-1, required=True)
@trust_option
@engine_options
def steer(words: tuple[str, ...], trust: bool) -> None:
    """Add TEXT to ${CONTEXT} in the prompts of later iterations.

    The current iteration continues as it is. Earlier texts are kept. `agentforge resume --context` does the
    same for a run that is stopped. SESSION can be omitted if only one session is unfinished.
    """
    call = invocation()
    if len(words) > 2:
        raise click.UsageError("put TEXT in quotes: it must be one argument")
    *named, text = words
    session = choose_session(call, named[0] if named else None, OPEN_STATUSES, "to steer")
    with engine_for(call, session, trust=trust) as engine:
        engine.steer(session, text)
    said = f"Session '{session}' has no active engine; its next iteration will get the text."
    if driven := call.runs.info(session).status == "running":
        said = f"The next iteration of session '{session}' will get the text."
    call.report({"session": session, "asked": "steer", "driven": driven}, said)


_options = options_of(
    click.argument("session", required=False),
    click.option("-r", "--reason", default="requested", show_default=True, help="Reason to record."),
    trust_option,
    engine_options,
)


@click.command()
@_options
def cancel(session: str | None, reason: str, trust: bool) -> None:
    """Cancel a run permanently.

    Stops its agent. A cancelled run can't be resumed.
    """
    _cancel(session, reason, trust=trust)


@click.command()
@_options
def abort(session: str | None, reason: str, trust: bool) -> None:
    """Cancel a run permanently. The same as `agentforge cancel`."""
    _cancel(session, reason, trust=trust)


def _cancel(session: str | None, reason: str, *, trust: bool) -> None:
    call = invocation()
    name = choose_session(call, session, OPEN_STATUSES, "to cancel")
    with engine_for(call, name, trust=trust) as engine:
        cancelled = engine.cancel(name, reason) is not None
    shown = {"session": name, "asked": "cancel", "cancelled": cancelled}
    call.report(shown, cancel_text(name, cancelled=cancelled))
