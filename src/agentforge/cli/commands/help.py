"""`agentforge help`."""

import click

from agentforge.cli.invocation import invocation
from agentforge.cli.output import echo


@click.command("help")
@click.argument("command", required=False)
@click.pass_context
def help_(context: click.Context, command: str | None) -> None:
    """Show this help, or the help of COMMAND."""
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    if command is None:
        echo(*root.get_help().split("\n"))
        return
    found = root.command.get_command(root, command)
    if found is None:
        raise click.UsageError(f"unknown command '{command}'; `{invocation().name} help` lists the commands")
    with click.Context(found, info_name=command, parent=root) as about:
        echo(*found.get_help(about).split("\n"))
