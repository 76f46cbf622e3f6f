"""`agentforge doctor`: check the environment."""

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import invocation, project_options
from agentforge.cli.output import echo, hanging, marked, print_json, styled
from agentforge.views.text import padded, width

NO_AGENT = "no agent is usable here"


@click.command()
@project_options
def doctor() -> int:
    """Probe the environment and suggest fixes.

    Checks the machine, the project, tools, agents and settings. Exits 1 if something essential is broken.
    """
    from agentforge import doctor as probe

    call = invocation()
    probes = probe(call.root)
    broken = [found.name for found in probes if found.level == "broken"]
    usable = not broken
    status = exit_codes.COMPLETED if usable else exit_codes.FAILED
    if call.as_json:
        print_json({"usable": usable, "probes": probes})
        return status
    columns = max(width(found.name) for found in probes)
    group, indent = "", columns + 6
    for found in probes:
        if found.group != group:
            group = found.group
            echo(styled(group.capitalize(), "strong"))
        line = f"  {marked(found.level)} {padded(found.name, columns)}  {hanging(found.found, indent)}"
        echo(*line.split("\n"))
        if found.fix:
            echo(*f"{' ' * indent}{hanging('fix: ' + found.fix, indent, 'busy')}".split("\n"))
    echo()
    if usable and any(found.found == NO_AGENT for found in probes):
        echo(styled(f"AgentForge can run here, but {NO_AGENT}: see above for what to do.", "warn"))
    elif usable:
        echo(styled("AgentForge can run here.", "good"))
    else:
        echo(styled(f"AgentForge can't run here yet: {', '.join(broken)}", "bad"))
    return status
