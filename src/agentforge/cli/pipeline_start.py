"""What the commands share that start a pipeline by its name, such as `design` and `implement`."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from posixpath import join
from typing import TYPE_CHECKING, Any

import click

from agentforge import Definitions, pipeline_id, read_yaml
from agentforge.cli.invocation import engine_options, invocation, options_of
from agentforge.cli.pipeline_lines import start_lines
from agentforge.cli.run_options import Definition, definition_of, options_for, taken
from agentforge.cli.start import start_attached
from agentforge.model.artifact import is_of_engine
from agentforge.model.diagnostic import choice
from agentforge.model.errors import InvalidRequest
from agentforge.model.layout import SPECIFICATIONS
from agentforge.model.run_options import OverrideOptions, StartOptions

if TYPE_CHECKING:
    from agentforge import Compiled

SPEC = "spec"
"""The stage that leaves a specification."""

pipeline_options = options_of(
    options_for(StartOptions, without=("request", "force")),
    options_for(OverrideOptions, without=("inputs", "supervised")),
    click.option(
        "-s",
        "--supervised/--no-supervised",
        default=None,
        help="Whether a person approves the result of every stage.  [default: as the pipeline says]",
    ),
    click.option("--input", "inputs", multiple=True, metavar="PATH", help="Input file, folder or glob."),
    click.option(
        "-i",
        "--iterate",
        is_flag=True,
        help="Run a stage again after a rejection, whatever the pipeline says.",
    ),
    engine_options,
)
skip_options = options_of(
    click.option(
        "--from-spec",
        "spec_id",
        metavar="ID",
        help=f"Begin with a specification from {SPECIFICATIONS}; the stages up to `{SPEC}` are skipped.",
    ),
    click.option("--skip-to", metavar="STAGE", help="Skip the stages before this one, as with --skip."),
)


class Specification:
    """One that a run has left in the project."""

    def __init__(self, id: str) -> None:
        self.id = id
        found = _read(id)
        self.artifact = {key: value for key, value in found.items() if not is_of_engine(key)}
        words = (found.get(name) for name in ("original_request", "title"))
        self.request = next((text for text in words if isinstance(text, str) and text.strip()), f"Build {id}")


def _read(id: str) -> dict[str, Any]:
    runs = invocation().runs
    known = Definitions(runs.project).specifications()
    if id not in known:
        hint = choice(id, "specifications", known) if known else "`agentforge design REQUEST` leaves one"
        raise InvalidRequest(f"there is no specification {id!r} in {SPECIFICATIONS}", hint=hint)
    found = read_yaml(join(runs.project, SPECIFICATIONS, f"{id}.yaml"))
    if not isinstance(found, dict):
        raise InvalidRequest(f"{SPECIFICATIONS}/{id}.yaml has no specification", hint="correct the file")
    return found


def start_pipeline(
    pipeline: str,
    request: str | None,
    options: dict[str, Any],
    *,
    artifact: Mapping[str, Any] | None = None,
    spec_id: str | None = None,
    skip_to: str | None = None,
) -> int:
    """Start it with a new ID. `options`: those of `pipeline_options`. `artifact`: in place of one that the
    options don't name."""
    specification = Specification(spec_id) if spec_id else None
    if specification and options["artifact"]:
        raise click.UsageError("give one of --from-spec and --artifact")
    request = request or (specification.request if specification else None)
    session = pipeline_id(datetime.now(UTC), os.urandom(4).hex())
    options["iterate"] = options["iterate"] or None
    # The reason of a skip that one of our own options asks for need not be given.
    skipping = f"--skip-to {skip_to}" if skip_to else f"--from-spec {spec_id}"
    reason = options["reason"] or skipping
    if not options["skip"] and not options["skip_checks"]:
        options["reason"] = None
    what: Definition = definition_of(options, session, pipeline=pipeline)
    how = taken(StartOptions, {**options, "request": request})
    if specification or artifact is not None:
        how["artifact"] = how["artifact"] or (specification.artifact if specification else artifact)

    def completed(compiled: "Compiled", how: StartOptions) -> StartOptions:
        ids = [node.id for node in compiled.plan.nodes]
        before = _before(ids, skip_to, what) if skip_to else []
        if specification and SPEC in ids:
            before = [*ids[: ids.index(SPEC) + 1], *before]
        return {**how, "skip": {**dict.fromkeys(before, reason), **how.get("skip", {})}}

    heading = start_lines(session, request or pipeline)
    return start_attached(what, how, trust=False, heading=heading, complete=completed)


def _before(ids: list[str], stage: str, what: Definition) -> list[str]:
    if stage not in ids:
        hint = choice(stage, "stages", ids)
        raise InvalidRequest(f"the pipeline {what.pipeline!r} has no stage {stage!r} to skip to", hint=hint)
    return ids[: ids.index(stage)]
