"""Definitions as they are written: `lint`, `schema` for editors, and `migrate check` for projects of
agent-pipelines."""

import os
from typing import TYPE_CHECKING, Literal

import click
from msgspec.structs import asdict

from agentforge.cli import exit_codes
from agentforge.cli.invocation import invocation, json_option, looking
from agentforge.cli.output import print_json, styled
from agentforge.model.errors import InvalidRequest
from agentforge.views.text import counted, one_line, padded, width

if TYPE_CHECKING:
    from agentforge.app.definitions import Definitions, Linted
    from agentforge.legacy.migration import Migration
TONES = {"refused": "bad", "changes": "warn", "note": "dim"}


@click.command()
@click.argument("kind", metavar="[loop|pipeline]", required=False)
@click.argument("name", required=False)
@click.option("--strict", is_flag=True, help="Count warnings as failures.")
@looking
def lint(kind: str | None, name: str | None, strict: bool) -> int:
    """Check stages and pipelines.

    Without arguments, everything that lies in the project; `loop` means stages. `agentforge lint FILE.yaml`
    checks that pipeline file.
    """
    from agentforge.app.definitions import Definitions

    call = invocation()
    found = _targets(Definitions(call.root, os.environ), kind, name)
    failed = [linted for linted in found if not linted.passed or (strict and linted.diagnostics)]
    if call.as_json:
        print_json(_as_json(found, failed))
    else:
        for linted in found:
            _print(linted, passed=linted not in failed)
        if not found:
            click.echo("Nothing to check: no stages in .claude/stages, no pipelines in .claude/pipelines")
        passed = len(found) - len(failed)
        click.echo(f"Summary: {len(found)} targets, {passed} passed, {len(failed)} failed")
    return exit_codes.USAGE if failed else exit_codes.COMPLETED


def _targets(definitions: "Definitions", kind: str | None, name: str | None) -> "list[Linted]":
    if kind is None:
        return definitions.lint_all()
    if kind not in ("loop", "stage", "pipeline"):
        if name is None and ("/" in kind or kind.endswith((".yaml", ".yml"))):
            return [definitions.lint(kind, "pipeline")]
        raise click.UsageError(f"'{kind}' is neither `loop` nor `pipeline`: agentforge lint pipeline {kind}")
    wanted: Literal["pipeline", "stage"] = "pipeline" if kind == "pipeline" else "stage"
    if name is not None:
        return [definitions.lint(name, wanted)]
    return [linted for linted in definitions.lint_all() if linted.kind == wanted]


def _print(linted: "Linted", *, passed: bool) -> None:
    from agentforge.definition.diagnostics import render_one

    click.echo(f"  {linted.name}")
    if passed and not linted.diagnostics:
        click.echo(f"    {styled('[PASS]', 'good')} All checks passed")
        return
    words = "Passed, with warnings" if passed else "Validation failed"
    click.echo(f"    {styled('[PASS]', 'good') if passed else styled('[FAIL]', 'bad')} {words}")
    for diagnostic in linted.diagnostics:
        word = styled("[ERROR]", "bad") if diagnostic.is_error else styled("[WARN]", "warn")
        click.echo(f"    {word} " + render_one(diagnostic).replace("\n", "\n    "))


def _as_json(found: "list[Linted]", failed: "list[Linted]") -> dict[str, object]:
    targets = [
        {
            "name": linted.name,
            "kind": linted.kind,
            "passed": linted not in failed,
            "diagnostics": linted.diagnostics,
        }
        for linted in found
    ]
    return {"targets": targets, "passed": len(found) - len(failed), "failed": len(failed)}


@click.command()
@click.argument("kind", metavar="[pipeline|stage]", default="pipeline")
@json_option
def schema(kind: str) -> None:
    """Print the JSON Schema of pipeline files (default), or of stage.yaml.

    Editors that support YAML complete, explain and validate keys with it; docs/pipelines.md says how to set
    them up.

    \b
      agentforge schema pipeline > .vscode/agentforge-pipeline.json
      agentforge schema stage > .vscode/agentforge-stage.json
    """
    from agentforge.definition.read.file_keys import pipeline_schema, stage_schema

    schemas = {"pipeline": pipeline_schema, "stage": stage_schema}
    if kind not in schemas:
        raise click.UsageError(f"no schema named '{kind}'; choose `pipeline` or `stage`")
    print_json(schemas[kind]())


@click.group()
def migrate() -> None:
    """Come from agent-pipelines' shell engine."""


@migrate.command()
@click.argument("folder", metavar="[DIR]", required=False)
@looking
def check(folder: str | None) -> int:
    """Say what would behave differently here.

    Reads the pipelines, stages and finished runs of the project in DIR and changes nothing. Exits 1 if
    anything is refused or behaves differently; notes don't count.
    """
    from agentforge.app.definitions import Definitions

    call = invocation()
    project = os.path.abspath(folder) if folder else call.root
    if not os.path.isdir(project):
        raise InvalidRequest(f"there is no folder {project}", hint="give the project's folder")
    found = Definitions(project, os.environ).migration()
    if call.as_json:
        print_json({"same": found.is_same, **asdict(found)})
    else:
        _print_findings(found, project)
    return exit_codes.COMPLETED if found.is_same else exit_codes.FAILED


def _print_findings(found: "Migration", project: str) -> None:
    rows = [(f"{one.place.file}:{one.place.line}", one) for one in found.findings]
    columns = max((width(where) for where, _ in rows), default=0)
    rules = max((len(one.rule) for _, one in rows), default=0)
    for where, one in rows:
        level = styled(f"{one.level:<7}", TONES[one.level])
        click.echo(f"{padded(where, columns)}  {level}  {one.rule:<{rules}}  {one_line(one.message)}")
    amounts = ((found.pipelines, "pipeline"), (found.stages, "stage"), (found.runs, "run"))
    looked_at = ", ".join(counted(number, noun) for number, noun in amounts)
    if rows:
        click.echo()
    words = {
        level: counted(sum(one.level == level for one in found.findings), noun)
        for level, noun in (("refused", "refusal"), ("changes", "change"), ("note", "note"))
    }
    click.echo(f"{project}: {looked_at}: {', '.join(words.values())}")
    if not found.is_same:
        click.echo("docs/migration.md says for each rule what to do.")
