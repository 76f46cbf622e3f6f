"""`agentforge attach`: follow a running session with the live display."""

import click

from agentforge.cli.invocation import choose_session, invocation, project_options


@click.command()
@click.argument("session", required=False)
@project_options
def attach(session: str | None) -> int:
    """Follow a running session with the live display.

    Ctrl-C detaches: the run continues. When the run stops, prints the outcome and exits with
    the run's exit status.
    SESSION can be omitted if only one session is running.
    """
    from agentforge.cli.attached import follow_run

    call = invocation()
    return follow_run(call, choose_session(call, session, {"running"}, "to attach to"))
