"""`agentforge providers`: which providers there are, and whether they can be used."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import invocation, project_options
from agentforge.cli.output import hanging, marked, print_json, styled
from agentforge.views.text import padded, width

if TYPE_CHECKING:
    from agentforge import Capabilities, ProviderInfo


@click.command()
@project_options
def providers() -> None:
    """List the providers that stages can name.

    Built in, described in .agentforge/providers/, or offered by an installed package (the entry point group
    agentforge.providers). Each is set up to see whether it can be used here; none is given any work.
    """
    import asyncio

    found = asyncio.run(_look(invocation().root))
    if invocation().as_json:
        print_json(found)
        return
    columns = max(width(info.name) for info in found)
    for info in found:
        click.echo("\n".join(_lines(info, columns)))


async def _look(project: str) -> "Sequence[ProviderInfo]":
    from agentforge import Engine

    async with Engine(project, environ=os.environ) as engine:
        return await engine.providers()


def _lines(info: "ProviderInfo", columns: int) -> list[str]:
    mark = marked("ok" if info.usable else "broken")
    origin = info.origin if info.origin == "built in" else f"{info.origin}: {info.place}"
    said = "; ".join(_abilities(info.capabilities)) if info.capabilities else ""
    about, indent = f"{origin} · {said}" if said else origin, columns + 6
    lines = [f"  {mark} {styled(padded(info.name, columns), 'strong')}  {hanging(about, indent)}"]
    if info.problem:
        lines.append(" " * indent + hanging(info.problem, indent))
    if info.fix:
        lines.append(" " * indent + hanging(f"fix: {info.fix}", indent, "busy"))
    return lines


def _abilities(found: "Capabilities") -> list[str]:
    """What there is to say beside that it works."""
    said = {
        "tools": found.supports_tools,
        "reasoning effort": found.supports_reasoning_control,
        "resumes sessions": found.supports_resume,
        "needs a sandbox": found.requires_sandbox,
        "one call at a time": not found.concurrent,
    }
    shown = [", ".join(words for words, is_so in said.items() if is_so)]
    if found.supported_models:
        shown.append(f"models: {', '.join(found.supported_models)}")
    return [words for words in shown if words]
