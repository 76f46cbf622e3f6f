"""`agentforge migrate check`: report differences from the shell engine."""

import os
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict, replace

from agentforge.cli import exit_codes
from agentforge.cli.invocation import existing_folder, invocation, project_options
from agentforge.cli.output import echo, echo_wrapped, print_json, styled, with_program
from agentforge.views.text import counted, one_line, padded, width

if TYPE_CHECKING:
    from agentforge import Migration


TONES = {"refused": "bad", "changes": "warn", "note": "dim"}


@click.group()
def migrate() -> None:
    """Migrate from the agent-pipelines shell engine."""


@migrate.command()
@click.argument("folder", metavar="[DIR]", required=False)
@project_options
def check(folder: str | None) -> int:
    """Report what would behave differently in AgentForge.

    Reads the pipelines, stages and finished runs of the project in DIR and changes nothing. Exits 1 if
    anything is rejected or behaves differently; notes don't count.
    """
    from agentforge import Definitions

    call = invocation()
    if folder:
        call.project = existing_folder(folder, "as DIR")
    found = Definitions(call.root, os.environ).migration()
    findings = (replace(one, message=with_program(one.message, call.program)) for one in found.findings)
    found = replace(found, findings=tuple(findings))
    if call.as_json:
        print_json({"same": found.is_same, **asdict(found)})
    else:
        _print_findings(found, call.root)
    return exit_codes.COMPLETED if found.is_same else exit_codes.FAILED


def _print_findings(found: "Migration", project: str) -> None:
    rows = [(f"{one.place.file}:{one.place.line}", one) for one in found.findings]
    columns = max((width(where) for where, _ in rows), default=0)
    rules = max((len(one.rule) for _, one in rows), default=0)
    for where, one in rows:
        level = styled(f"{one.level:<7}", TONES[one.level])
        echo_wrapped(f"{padded(where, columns)}  {level}  {one.rule:<{rules}}  {one_line(one.message)}")
    amounts = ((found.pipelines, "pipeline"), (found.stages, "stage"), (found.runs, "run"))
    checked = ", ".join(counted(number, noun) for number, noun in amounts)
    if rows:
        echo()
    counts = [
        counted(sum(one.level == level for one in found.findings), noun)
        for level, noun in (("refused", "refusal"), ("changes", "change"), ("note", "note"))
    ]
    echo_wrapped(f"{project}: {checked}: {', '.join(counts)}")
    if not found.is_same:
        echo("See docs/migration.md for what to do about each rule.")
