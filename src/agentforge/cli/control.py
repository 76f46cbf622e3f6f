"""`agentforge pause` and `cancel`: what people ask of a run while it goes on."""

import click

from agentforge.cli.invocation import driving, invocation
from agentforge.cli.output import print_json
from agentforge.cli.sessions import chosen


@click.command()
@click.argument("session", required=False)
@click.option("--now", is_flag=True, help="End the agent instead of letting it finish its iteration.")
@click.option("--reason", default="requested", show_default=True, help="What to record as the reason.")
@driving
def pause(session: str | None, now: bool, reason: str) -> None:
    """Pause a run after its current iteration.

    `agentforge resume` goes on with it.
    """
    from agentforge.cli.log_output import set_up_logs
    from agentforge.sdk.sync import SyncEngine

    call = invocation()
    set_up_logs(call)
    name = chosen(call, session, {"running", "interrupted"}, "to pause")
    with SyncEngine(call.root) as sync:
        sync.pause(name, reason, now=now)
    driven = call.runs.info(name).status == "running"
    if call.as_json:
        print_json({"session": name, "asked": "pause", "now": now, "driven": driven})
    elif not driven:
        click.echo(f"Session '{name}' will pause as soon as it is recovered; nobody drives it now.")
    else:
        when = "now" if now else "when its current iteration is done"
        click.echo(f"Asked session '{name}' to pause {when}.")


@click.command()
@click.argument("session", required=False)
@click.option("--reason", default="requested", show_default=True, help="What to record as the reason.")
@driving
def cancel(session: str | None, reason: str) -> None:
    """End a run for good.

    Its agent is ended, and the run can't be resumed.
    """
    from agentforge.cli.log_output import set_up_logs
    from agentforge.sdk.sync import SyncEngine

    call = invocation()
    set_up_logs(call)
    open_statuses = {"running", "interrupted", "paused", "awaiting_approval"}
    name = chosen(call, session, open_statuses, "to cancel")
    with SyncEngine(call.root) as sync:
        result = sync.cancel(name, reason)
    if call.as_json:
        print_json({"session": name, "asked": "cancel", "cancelled": result is not None})
    elif result is not None:
        click.echo(f"Cancelled session '{name}'.")
    else:
        click.echo(f"Asked session '{name}' to end; its driver ends the agent now.")
