"""`agentforge doctor`: what is usable here, and the exact fix for what isn't."""

import os

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import invocation, looking
from agentforge.cli.output import hanging, print_json, styled
from agentforge.views.plain_text import padded, width

MARKS = {"ok": ("✓", "good"), "note": ("·", "dim"), "warning": ("!", "warn"), "broken": ("✗", "bad")}


@click.command()
@looking
def doctor() -> int:
    """Check what is usable here, with the fix for what isn't.

    Looks at the machine, the project, tools, agents and settings; exits 1 if something essential is broken.
    """
    from agentforge.sdk.doctor import examine, is_usable

    call = invocation()
    checks = examine(call.root, os.environ)
    usable = is_usable(checks)
    if call.as_json:
        print_json({"usable": usable, "checks": checks})
        return exit_codes.COMPLETED if usable else exit_codes.FAILED
    columns = max(width(check.name) for check in checks)
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            click.echo(styled(group.capitalize(), "strong"))
        mark, tone = MARKS[check.level]
        indent = columns + 6
        click.echo(f"  {styled(mark, tone)} {padded(check.name, columns)}  {hanging(check.found, indent)}")
        if check.fix:
            click.echo(f"{' ' * indent}{hanging('fix: ' + check.fix, indent, 'busy')}")
    broken = [check.name for check in checks if check.level == "broken"]
    click.echo()
    if usable:
        click.echo(styled("AgentForge can run here.", "good"))
        return exit_codes.COMPLETED
    click.echo(styled(f"AgentForge can't run here yet: {', '.join(broken)}", "bad"))
    return exit_codes.FAILED
