"""`agentforge pause`: pause a run."""

import click

from agentforge.cli.invocation import choose_session, engine_options, invocation
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
    from agentforge.cli.controls import open_engine, pause_text

    call = invocation()
    name = choose_session(call, session, {"running", "interrupted"}, "to pause")
    with open_engine(call) as engine:
        engine.pause(name, reason, now=now)
    driven = call.runs.info(name).status == "running"
    if call.as_json:
        print_json({"session": name, "asked": "pause", "now": now, "driven": driven})
    else:
        echo(pause_text(name, driven=driven, now=now))
