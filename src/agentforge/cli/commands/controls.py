"""`agentforge pause`, `steer`, `cancel` and `abort`: control a run, whether an engine drives it or not."""

import click

from agentforge.cli.controls import ask_for_trust, cancel_text, open_engine, pause_text, trust_option
from agentforge.cli.invocation import OPEN_STATUSES, choose_session, engine_options, invocation, options_of
from agentforge.cli.output import echo, print_json


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
    if call.as_json:
        print_json({"session": name, "asked": "pause", "now": now, "driven": driven})
    else:
        echo(pause_text(name, driven=driven, now=now))


MAX_WORDS = 2
"""SESSION and TEXT."""


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
    if len(words) > MAX_WORDS:
        raise click.UsageError("put TEXT in quotes: it must be one argument")
    *named, text = words
    session = choose_session(call, named[0] if named else None, OPEN_STATUSES, "to steer")
    trusted = ask_for_trust(call, session, given=trust)
    with open_engine(call) as engine:
        if trusted:
            engine.trust(session)
        engine.steer(session, text)
    driven = call.runs.info(session).status == "running"
    if call.as_json:
        print_json({"session": session, "asked": "steer", "driven": driven})
    elif driven:
        echo(f"The next iteration of session '{session}' will get the text.")
    else:
        echo(f"Session '{session}' has no active engine; its next iteration will get the text.")


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
    trusted = ask_for_trust(call, name, given=trust)
    with open_engine(call) as engine:
        if trusted:
            engine.trust(name)
        result = engine.cancel(name, reason)
    if call.as_json:
        print_json({"session": name, "asked": "cancel", "cancelled": result is not None})
    else:
        echo(cancel_text(name, cancelled=result is not None))
