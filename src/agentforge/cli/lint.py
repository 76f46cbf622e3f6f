"""`agentforge lint`: everything that is wrong with stages and pipelines, all at once."""

import os
from typing import TYPE_CHECKING

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import invocation, looking
from agentforge.cli.output import print_json, styled

if TYPE_CHECKING:
    from agentforge.sdk.definitions import Definitions, Linted

KINDS = ("loop", "stage", "pipeline")


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
    from agentforge.sdk.definitions import Definitions

    call = invocation()
    found = _targets(Definitions(call.root, os.environ), kind, name)
    failed = [linted for linted in found if not _passes(linted, strict=strict)]
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
    if kind not in KINDS:
        if name is None and ("/" in kind or kind.endswith((".yaml", ".yml"))):
            return [definitions.lint(kind, "pipeline")]
        raise click.UsageError(f"'{kind}' is neither `loop` nor `pipeline`: agentforge lint pipeline {kind}")
    if name is not None:
        return [definitions.lint(name, "pipeline" if kind == "pipeline" else "stage")]
    wanted = "pipeline" if kind == "pipeline" else "stage"
    return [linted for linted in definitions.lint_all() if linted.kind == wanted]


def _passes(linted: "Linted", *, strict: bool) -> bool:
    return linted.passed and not (strict and linted.diagnostics)


def _print(linted: "Linted", *, passed: bool) -> None:
    from agentforge.definition.diagnostics import render_one

    click.echo(f"  {linted.name}")
    if passed and not linted.diagnostics:
        click.echo(f"    {styled('[PASS]', 'good')} All checks passed")
        return
    words = "Passed, with warnings" if passed else "Validation failed"
    click.echo(f"    {styled('[PASS]', 'good') if passed else styled('[FAIL]', 'bad')} {words}")
    for diagnostic in linted.diagnostics:
        first, *rest = render_one(diagnostic).split("\n")
        word = styled("[ERROR]", "bad") if diagnostic.is_error else styled("[WARN]", "warn")
        click.echo(f"    {word} {first}")
        for line in rest:
            click.echo(f"    {line}")


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
