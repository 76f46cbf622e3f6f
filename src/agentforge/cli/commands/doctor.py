"""`agentforge doctor` and `agentforge providers`: what is usable on this machine."""

from typing import TYPE_CHECKING

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import invocation, project_options
from agentforge.cli.output import echo, echo_hanging, hanging, marked, print_json, styled
from agentforge.model.spending import CALLED
from agentforge.views.text import padded, width

if TYPE_CHECKING:
    from agentforge import Capabilities


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
        name = f"  {marked(found.level)} {padded(found.name, columns)}"
        echo_hanging(f"{name}  {hanging(found.found, indent)}")
        if found.fix:
            echo_hanging(f"{' ' * indent}{hanging('fix: ' + found.fix, indent, 'busy')}")
    echo()
    if usable and any(found.found == NO_AGENT for found in probes):
        echo(styled(f"AgentForge can run here, but {NO_AGENT}: see above for what to do.", "warn"))
    elif usable:
        echo(styled("AgentForge can run here.", "good"))
    else:
        echo(styled(f"AgentForge can't run here yet: {', '.join(broken)}", "bad"))
    return status


@click.command()
@project_options
def providers() -> None:
    """List the available providers.

    Providers are built in, described in .agentforge/providers/, or come from an installed package (entry
    point group agentforge.providers). Each is initialized to check whether it is usable; none is given
    any work.
    """
    from agentforge import SyncEngine

    call = invocation()
    with SyncEngine(call.root) as engine:
        found = engine.providers()
    if call.as_json:
        print_json(found)
        return
    columns = max(width(info.name) for info in found)
    for info in found:
        mark = marked("ok" if info.usable else "broken")
        origin = info.origin if info.origin == "built in" else f"{info.origin}: {info.place}"
        abilities = "; ".join(_abilities(info.capabilities)) if info.capabilities else ""
        about, indent = f"{origin} · {abilities}" if abilities else origin, columns + 6
        name = styled(padded(info.name, columns), "strong")
        echo_hanging(f"  {mark} {name}  {hanging(about, indent)}")
        if info.problem:
            echo_hanging(" " * indent + hanging(info.problem, indent))
        if info.fix:
            echo_hanging(" " * indent + hanging(f"fix: {info.fix}", indent, "busy"))


def _abilities(found: "Capabilities") -> list[str]:
    features = {
        "tools": found.supports_tools,
        "reasoning effort": found.supports_reasoning_control,
        "resumes sessions": found.supports_resume,
        f"keeps to a budget ({', '.join(CALLED[unit] for unit in found.bounds)})": bool(found.bounds),
        "needs a sandbox": found.requires_sandbox,
        "one call at a time": not found.concurrent,
    }
    shown = [", ".join(name for name, is_supported in features.items() if is_supported)]
    if found.supported_models:
        shown.append(f"models: {', '.join(found.supported_models)}")
    return [text for text in shown if text]
