"""`agentforge lint`: check stages and pipelines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import click
from msgspec.structs import replace

from agentforge.cli import exit_codes
from agentforge.cli.controls import open_engine
from agentforge.cli.invocation import invocation, project_options
from agentforge.cli.output import echo, echo_wrapped, note, print_json, styled, wrapped
from agentforge.model.condition import condition_text
from agentforge.model.diagnostic import ARGUMENTS, Diagnostic, SourcePlace, listed
from agentforge.model.errors import DefinitionError
from agentforge.views.graph import judged_stages
from agentforge.views.lines.plan import hook_line, lint_lines
from agentforge.views.text import counted, one_line

if TYPE_CHECKING:
    from agentforge import Definitions, LintResult, SyncEngine

OF_THIS_MACHINE = "provider-unusable"
PLACES = (
    ".claude/stages, .claude/pipelines, .agentforge/providers, settings, "
    "and the pipelines in the project's folder"
)


@click.command()
@click.argument("kind", metavar="[loop|pipeline]", required=False)
@click.argument("name", required=False)
@click.option("--strict", is_flag=True, help="Count warnings as failures.")
@click.option(
    "--static", is_flag=True, help="Validate only the files, not whether this machine can run them."
)
@project_options
def lint(kind: str | None, name: str | None, strict: bool, static: bool) -> int:
    """Validate stages and pipelines.

    Without arguments, validates all stages, pipelines and providers of the project: those in .claude and
    .agentforge, and the pipeline files in its folder. `loop` validates the stages, `pipeline` the pipelines,
    and `agentforge lint FILE.yaml` one pipeline file. Everything that `run` would refuse is an error,
    including missing programs; --static validates only the files. The hooks, checks and routes of a pipeline
    are listed.
    """
    with open_engine(call := invocation()) as engine:
        found = [_with_hidden(one) for one in _targets(engine.definitions if static else engine, kind, name)]
        unread = engine.definitions.unread() if kind is None else {}
    if len(found) == 1 and not call.as_json:
        # A name that is not found is an error, as in `run`.
        diagnostics = found[0].diagnostics
        if diagnostics and diagnostics[0].place.file == ARGUMENTS:
            raise DefinitionError(diagnostics)
    failed = [linted for linted in found if not linted.passed or (strict and linted.diagnostics)]
    if call.as_json:
        others = [{"file": name, "reason": why} for name, why in unread.items()]
        print_json({**_as_json(found, failed), "unread": others})
    else:
        for linted in found:
            _print(linted, passed=linted not in failed)
        if not found:
            echo(f"Nothing to validate{'' if kind else ': no stage, pipeline or provider found'}")
        if kind is None:
            echo_wrapped(f"Read: {PLACES}. Other files: {call.program} lint FILE")
        if unread:
            # As in `a.yaml, b.yaml (empty); c.yaml (no `nodes`)`.
            reasons = sorted(set(unread.values()))
            named = {why: [one_line(name) for name, its in unread.items() if its == why] for why in reasons}
            shown = "; ".join(f"{listed(names)} ({one_line(why)})" for why, names in named.items())
            echo_wrapped(f"Not read: {shown}")
        passed = len(found) - len(failed)
        echo(f"Summary: {counted(len(found), 'target')}, {passed} passed, {len(failed)} failed")
        if any(one.code == OF_THIS_MACHINE for linted in failed for one in linted.diagnostics):
            note(f"To validate only the files: {call.program} lint --static")
    return exit_codes.USAGE if failed else exit_codes.COMPLETED


def _targets(
    linter: "Definitions | SyncEngine", kind: str | None, name: str | None
) -> "Sequence[LintResult]":
    if kind is None:
        return linter.lint_all()
    if kind not in ("loop", "stage", "pipeline"):
        if name is None and ("/" in kind or kind.endswith((".yaml", ".yml"))):
            return [linter.lint(kind, "pipeline")]
        raise click.UsageError(
            f"expected `loop` or `pipeline`, got '{kind}'; try `agentforge lint pipeline {kind}`"
        )
    given: Literal["pipeline", "stage"] = "pipeline" if kind == "pipeline" else "stage"
    if name is not None:
        return [linter.lint(name, given)]
    return [linted for linted in linter.lint_all() if linted.kind == given]


def _with_hidden(linted: "LintResult") -> "LintResult":
    """With a warning if a command has the name of the stage."""
    plan, name, root = linted.plan, linted.name, click.get_current_context().find_root()
    if plan is None or linted.kind != "stage" or not isinstance(root.command, click.Group):
        return linted
    if root.command.get_command(root, name) is None:
        return linted
    message = f"`{name}` is also a command, and commands take precedence over stages"
    hint, at = f"run the stage as `loop {name}`, or rename its folder", SourcePlace(plan.source.path, 1, 1)
    hidden = Diagnostic("hidden-by-verb", "warning", message, at, hint)
    return replace(linted, diagnostics=(hidden, *linted.diagnostics))


def _print(linted: "LintResult", *, passed: bool) -> None:
    from agentforge.model.diagnostic import render_one

    echo(f"  {linted.kind} {linted.name}")
    result = "Passed, with warnings" if linted.diagnostics else "No problems found"
    outcome = f"{styled('[PASS]', 'good')} {result}"
    echo(f"    {outcome if passed else styled('[FAIL]', 'bad') + ' Validation failed'}")
    for hook in linted.plan.all_hooks if linted.plan else ():
        echo(*wrapped(f"    hook {hook_line(hook)}", 9))
    for line in lint_lines(linted.plan) if linted.plan else ():
        echo(*wrapped(f"    {line}", 9))
    for diagnostic in linted.diagnostics:
        level = styled("[ERROR]", "bad") if diagnostic.is_error else styled("[WARN]", "warn")
        first, *rest = render_one(diagnostic, marks_warnings=False).split("\n")
        echo(*wrapped(f"    {level} {first}", 12))
        for line in rest:
            echo(*([f"    {line}"] if line.lstrip().startswith("|") else wrapped(f"    {line}", 12)))


def _as_json(found: "Sequence[LintResult]", failed: "Sequence[LintResult]") -> dict[str, object]:
    targets = [
        {
            "name": linted.name,
            "kind": linted.kind,
            "passed": linted not in failed,
            "diagnostics": linted.diagnostics,
            "hooks": [
                {
                    "id": hook.id,
                    "point": hook.point,
                    "action": hook.action,
                    "stage": hook.stage,
                    "condition": None if hook.condition is None else condition_text(hook.condition),
                }
                for hook in (linted.plan.all_hooks if linted.plan else ())
            ],
            "stages": judged_stages(linted.plan) if linted.plan else [],
        }
        for linted in found
    ]
    return {"targets": targets, "passed": len(found) - len(failed), "failed": len(failed)}
