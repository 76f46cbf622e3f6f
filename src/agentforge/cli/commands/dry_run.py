"""`agentforge dry-run`: show what a run would do."""

import os
from typing import TYPE_CHECKING, Any

import click

from agentforge.cli import exit_codes
from agentforge.cli.controls import open_engine, trust_option
from agentforge.cli.invocation import HintedUsageError, engine_options, invocation
from agentforge.cli.output import echo, note, print_json, wrapped
from agentforge.cli.run_options import definition_of, from_stdin, options_for, taken, target_options
from agentforge.model.diagnostic import did_you_mean
from agentforge.model.names import DEFAULT_PIPELINE
from agentforge.model.run_options import OverrideOptions, StartOptions

if TYPE_CHECKING:
    from agentforge import Definitions, Forecast

STAGE_KINDS = ("loop", "stage")
KINDS = (*STAGE_KINDS, "pipeline")
DEFAULT_SESSION = "preview"


@click.command("dry-run")
@click.argument("words", metavar="[REQUEST | [loop|pipeline] NAME [SESSION]]", nargs=-1)
@target_options
@options_for(StartOptions)
@trust_option
@options_for(OverrideOptions)
@engine_options
def dry_run(words: tuple[str, ...], *, pipeline: str | None, session: str | None, **options: Any) -> int:
    """Show what a run would do, and what it does at most.

    Takes what `agentforge run` takes. Without -p, the name of a pipeline or a stage, or a pipeline file, is
    NAME; any other text is the REQUEST. If a pipeline and a stage have that name, `pipeline` or `loop`
    selects one.

    Shows the stages with their providers, permissions, approvals, checks and routes, and the hooks; the worst
    case in iterations, attempts, time and cost; how long earlier runs of the pipeline took and what they
    cost; and what would prevent the run on this machine: then the exit status is 1. Does not start or write
    anything.
    """
    call = invocation()
    with open_engine(call) as sync:
        known = sync.definitions
        what, named, request = _target(known, words, pipeline)
        if named and session:
            raise click.UsageError("the session is given twice: as an argument, and with --session")
        if request is not None:
            if options["request"] is not None:
                raise click.UsageError("the request is given twice: as an argument, and with --request")
            options["request"] = from_stdin(None, None, request)
        if not what:
            if (default := known.default_pipeline()) is None and options["request"] is None:
                hint = "say what you want, or pass a pipeline with -p (`agentforge pipelines` lists them)"
                raise HintedUsageError("nothing to show", hint, click.get_current_context())
            what = {"pipeline": default or DEFAULT_PIPELINE}
        if options["skip"] or options["skip_checks"]:
            options["reason"] = options["reason"] or "a dry run"
        given = definition_of(options, session or named, **what)
        how, compiled = taken(StartOptions, options), given.compiled(sync.engine)
        found = sync.forecast(compiled, **how)
        if call.as_json:
            print_json(_as_json(found, sync.runs.layout(found.plan.session.name).root))
        else:
            for line in sync.dry_run(found):
                echo(*wrapped(line))
    return exit_codes.FAILED if found.problems else exit_codes.COMPLETED


def _as_json(found: "Forecast", run_dir: str) -> dict[str, object]:
    return {
        "plan": found.plan,
        "skipped": found.skipped,
        "run_dir": run_dir,
        "problems": [
            {"code": problem.code, "message": problem.message, "hint": problem.hint}
            for problem in found.problems
        ],
        "warnings": found.warnings,
        "worst_case": found.worst_case,
        "earlier": found.earlier,
    }


def _target(
    known: "Definitions", words: tuple[str, ...], pipeline: str | None
) -> tuple[dict[str, str], str | None, str | None]:
    """What to run, its session, and the request, as far as they are given."""
    if pipeline is not None or not words:
        if len(words) > 1:
            raise click.UsageError(f"expected at most one REQUEST with -p, got {len(words)} arguments")
        return {"pipeline": pipeline} if pipeline else {}, None, words[0] if words else None
    kind, rest = (words[0], words[1:]) if words[0] in KINDS else ("", words)
    if not 1 <= len(rest) <= 2:
        after = f"after '{kind}'" if kind else "for NAME and SESSION"
        raise click.UsageError(f"expected [loop|pipeline] NAME [SESSION], got {len(rest)} arguments {after}")
    name, session = rest[0], rest[1] if len(rest) > 1 else ""
    pipelines, stages = known.pipeline_names(), known.stage_names()
    if not kind and name not in {*pipelines, *stages} and not _is_file(name):
        return {}, None, _request(name, session, [*pipelines, *stages])
    if not kind and name in stages:
        kind = "pipeline" if name in pipelines else "stage"
        if kind == "pipeline":
            note(f"'{name}' is a pipeline and a stage. This is the pipeline; `loop {name}` the stage.")
    return {"stage" if kind in STAGE_KINDS else "pipeline": name}, session or DEFAULT_SESSION, None


def _is_file(name: str) -> bool:
    is_path = " " not in name and ("/" in name or name.endswith((".yaml", ".yml")))
    return is_path or os.path.lexists(os.path.join(invocation().root, name))


def _request(text: str, session: str, names: list[str]) -> str:
    meant = did_you_mean(text, names)
    if session:
        lists = "quote a request of several words; `agentforge pipelines` and `agentforge stages` list names"
        raise HintedUsageError(f"'{text}' is neither a pipeline nor a stage", meant or lists)
    if meant:
        note(f"'{text}' names no pipeline and no stage, so it is the request; {meant}")
    return text
