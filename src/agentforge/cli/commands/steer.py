"""`agentforge steer`: add a note to the context of a run."""

import click

from agentforge.cli.invocation import OPEN_STATUSES, choose_session, engine_options, invocation
from agentforge.cli.output import echo, print_json
from agentforge.cli.trust import ask_for_trust, trust_option

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
    from agentforge.cli.controls import open_engine

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
