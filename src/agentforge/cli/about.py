"""What is known about the program itself: `version`, `help`, and `doctor`, with the exact fix for what isn't
usable here."""

import os
import platform

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import invocation, json_option, looking
from agentforge.cli.output import hanging, marked, print_json, styled
from agentforge.version import __version__
from agentforge.views.text import padded, width


@click.command()
@json_option
def version() -> None:
    """Print the version."""
    if invocation().as_json:
        print_json({"version": __version__, "python": platform.python_version()})
    else:
        click.echo(f"agentforge, version {__version__}")


@click.command("help")
@click.argument("command", required=False)
@click.pass_context
def help_(context: click.Context, command: str | None) -> None:
    """Show this help, or that of COMMAND."""
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    if command is None:
        click.echo(root.get_help())
        return
    found = root.command.get_command(root, command)
    if found is None:
        raise click.UsageError(f"'{command}' is no command: `{invocation().name} help` lists them")
    with click.Context(found, info_name=command, parent=root) as about:
        click.echo(found.get_help(about))


@click.command()
@looking
def doctor() -> int:
    """Check what is usable here, with the fix for what isn't.

    Looks at the machine, the project, tools, agents and settings; exits 1 if something essential is broken.
    """
    from agentforge.app.doctor import examine, is_usable

    call = invocation()
    checks = examine(call.root, os.environ)
    usable = is_usable(checks)
    status = exit_codes.COMPLETED if usable else exit_codes.FAILED
    if call.as_json:
        print_json({"usable": usable, "checks": checks})
        return status
    columns = max(width(check.name) for check in checks)
    group, indent = "", columns + 6
    for check in checks:
        if check.group != group:
            group = check.group
            click.echo(styled(group.capitalize(), "strong"))
        click.echo(f"  {marked(check.level)} {padded(check.name, columns)}  {hanging(check.found, indent)}")
        if check.fix:
            click.echo(f"{' ' * indent}{hanging('fix: ' + check.fix, indent, 'busy')}")
    broken = [check.name for check in checks if check.level == "broken"]
    click.echo()
    if usable:
        click.echo(styled("AgentForge can run here.", "good"))
    else:
        click.echo(styled(f"AgentForge can't run here yet: {', '.join(broken)}", "bad"))
    return status
