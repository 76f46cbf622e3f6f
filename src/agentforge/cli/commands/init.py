"""`agentforge init`: write the first files of a project."""

import sys
from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import Invocation, invocation, project_options
from agentforge.cli.output import echo, marked, print_json, styled
from agentforge.views.text import one_line, padded, width

if TYPE_CHECKING:
    from agentforge import ProjectSurvey

AGENTS = ("claude", "codex", "opencode", "gemini")
NONE = "none"
NEXT = (
    ("lint", "check the files"),
    ("dry-run pipeline change", "see what would run"),
    ('run -p change "Add type hints"', "run it"),
    ('run "Add type hints"', "or run the built-in loop: plan, do, verify, review"),
)


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Don't ask; use the detected values.")
@click.option("--agent", type=click.Choice(AGENTS), help="The agent of the first pipeline.")
@click.option("--test", metavar="COMMAND", help="The command that runs the tests; empty for none.")
@click.option("--from", "source", metavar="PIPELINE", help="Only copy a built-in pipeline, such as loop.")
@click.argument("name", required=False)
@project_options
def init(yes: bool, agent: str | None, test: str | None, source: str | None, name: str | None) -> None:
    """Write a first stage and a first pipeline for a project.

    Detects the language, the test command and the agents that are logged in. Adds the run folders to
    .gitignore. Asks at most two questions, and none without a terminal. Does not overwrite files or run code
    of the project.

    With --from, copies a pipeline that is built in, with its prompts and schemas, for you to change. NAME is
    the name of the copy; without one, the copy replaces the built-in pipeline in this project.
    """
    from agentforge import copy_pipeline, examine_project, init_project

    call = invocation()
    if source is not None:
        created = copy_pipeline(call.root, source, name or "")
        lines = [f"  {marked('ok')} created {path}" for path in created]
        run = f'{call.program} run -p {name or source} "What to do"'
        call.report({"created": created}, *lines, "", f"  {run}")
        return
    if name is not None:
        raise click.UsageError("NAME is that of a copy: use it with --from PIPELINE")
    survey = examine_project(call.root)
    asks = not yes and not call.as_json and sys.stdin.isatty() and sys.stdout.isatty()
    if not call.as_json:
        _show_survey(survey)
    if asks:
        if agent is None and len(survey.usable) > 1:
            choices = click.Choice(survey.usable)
            agent = click.prompt("Agent to use", type=choices, default=survey.usable[0])
        if test is None:
            written = click.prompt(f"Test command (`{NONE}` for no tests)", default=survey.test or NONE)
            test = "" if written.strip() == NONE else written
    if survey.ignores and not call.as_json:
        echo("", "Adds to .gitignore:", *(f"  {line}" for line in survey.ignores))
    made = init_project(call.root, agent=agent, test=test)
    if call.as_json:
        found = {"language": survey.language, "test": made.test, "agent": made.agent, "agents": survey.agents}
        print_json({**found, "created": made.created, "kept": made.kept, "gitignore": made.ignores})
        return
    echo()
    for path in made.created:
        echo(f"  {marked('ok')} created {path}")
    for path in made.kept:
        echo(f"  {marked('note')} kept    {path}")
    _show_next(call, survey, made.agent)


def _show_survey(survey: "ProjectSurvey") -> None:
    tested = f"tested with `{survey.test}`" if survey.test else "no test command found"
    echo(f"Language: {survey.language or 'unknown'}, {tested}")
    for agent in survey.agents:
        if agent.path:
            level, found = ("ok", agent.found) if agent.is_usable else ("warning", "installed, not logged in")
            echo(f"Agent:    {marked(level)} {padded(agent.name, 8)}  {one_line(found, 60)}")
    if not any(agent.path for agent in survey.agents):
        echo("Agent:    none is installed")


def _show_next(call: Invocation, survey: "ProjectSurvey", agent: str) -> None:
    name = call.program
    echo("", styled("Next:", "strong"))
    for login in survey.agents:
        if login.name == agent and not login.is_usable:
            echo(f"  {styled(f'Make {agent} usable first:', 'warn')} {login.fix}")
    lines = [(f"{name} {command}", purpose) for command, purpose in NEXT]
    columns = max(width(command) for command, _ in lines)
    for command, purpose in lines:
        echo(f"  {padded(command, columns)}  {styled(purpose, 'dim')}")
