"""`agentforge cancel`: cancel a run permanently."""

import click

from agentforge.cli.invocation import OPEN_STATUSES, choose_session, engine_options, invocation, options_of
from agentforge.cli.output import echo, print_json
from agentforge.cli.trust import ask_for_trust, trust_option

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
    from agentforge.cli.controls import cancel_text, open_engine

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
