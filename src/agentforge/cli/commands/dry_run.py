"""`agentforge dry-run`: show what a run would do."""

from typing import TYPE_CHECKING, Any

import click

from agentforge.cli.controls import open_engine
from agentforge.cli.invocation import HintedUsageError, invocation, project_options
from agentforge.cli.output import echo, note, print_json, wrapped
from agentforge.cli.run_options import Definition, definition_of, options_for
from agentforge.model.run_options import OverrideOptions

if TYPE_CHECKING:
    from agentforge import Compiled, Engine, SyncEngine

STAGE_KINDS = ("loop", "stage")
KINDS = (*STAGE_KINDS, "pipeline")
DEFAULT_SESSION = "preview"


@click.command("dry-run")
@click.argument("words", metavar="[loop|pipeline] NAME [SESSION]", nargs=-1, required=True)
@click.option("--skip", multiple=True, metavar="STAGE", help="Skip this stage.")
@click.option("--artifact", metavar="FILE", help="JSON file with what the skipped stages would leave.")
@options_for(OverrideOptions)
@project_options
def dry_run(words: tuple[str, ...], skip: tuple[str, ...], artifact: str | None, **options: Any) -> None:
    """Show what a run would do.

    Shows its stages with their providers, models, permissions, sandboxes, iterations, limits, inputs and
    directories, and its hooks and notifications. NAME is a pipeline file, or the name of a pipeline or
    stage; if both exist, `pipeline` or `loop` selects one. Does not start or write anything. Also lists what
    would prevent the run on this machine.
    """
    with open_engine(call := invocation()) as sync:
        given = _given(sync.engine, words, options)
        compiled = given.compiled(sync.engine)
        known = sync.definitions
        if words[0] in {*known.pipeline_names()} & {*known.stage_names()} - {*KINDS}:
            note(
                f"'{words[0]}' is a pipeline and a stage. This is the pipeline; `loop {words[0]}` the stage."
            )
        if call.as_json:
            print_json(_as_json(sync, compiled, skip, artifact))
        else:
            for line in sync.dry_run(compiled, skip=skip, artifact=artifact):
                echo(*wrapped(line))


def _as_json(
    engine: "SyncEngine", compiled: "Compiled", skip: tuple[str, ...], artifact: str | None
) -> dict[str, object]:
    ready = engine.readiness(compiled, skip=skip, artifact=artifact)
    return {
        "plan": ready.plan,
        "skipped": skip,
        "run_dir": engine.runs.layout(ready.plan.session.name).root,
        "problems": [
            {"code": problem.code, "message": problem.message, "hint": problem.hint}
            for problem in ready.problems
        ],
        "warnings": ready.warnings,
    }


def _given(engine: "Engine", words: tuple[str, ...], options: dict[str, Any]) -> Definition:
    kind, rest = (words[0], words[1:]) if words[0] in KINDS else ("", words)
    if not 1 <= len(rest) <= 2:
        after = f"after '{kind}'" if kind else "for NAME and SESSION"
        raise click.UsageError(f"expected [loop|pipeline] NAME [SESSION], got {len(rest)} arguments {after}")
    name, session = (*rest, DEFAULT_SESSION)[:2]
    is_stage = kind in STAGE_KINDS or (not kind and _names_stage(engine, name))
    return definition_of(options, session, **{"stage" if is_stage else "pipeline": name})


def _names_stage(engine: "Engine", name: str) -> bool:
    """Whether the word names a stage, and neither a pipeline nor a file. Raises if it names none of them."""
    pipelines, stages = engine.definitions.pipeline_names(), engine.definitions.stage_names()
    if "/" in name or name.endswith((".yaml", ".yml")) or name in pipelines:
        return False
    if name not in stages:
        from agentforge.model.diagnostic import did_you_mean

        lists = "`agentforge pipelines` and `agentforge stages` list them"
        hint = did_you_mean(name, [*pipelines, *stages]) or lists
        raise HintedUsageError(f"'{name}' is neither a pipeline nor a stage", hint)
    return True
