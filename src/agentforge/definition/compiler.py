"""Compiles a name, file, stage or text to a Plan, or reports all diagnostics. One compilation runs all passes
in order, with one report over all files."""

# The passes, each of which relies on the one before it:
#
#   yaml_tree  text to a tree with places, of bounded size and depth
#   read/      tree to specs: a mapping of the wrong type ends here, a value out of range is reported and kept
#   resolve    names to files: stages, prompts, nested pipelines; each stage gets its levels
#   link       `inputs` to the nodes whose outputs they mean
#   artifacts  what stages need of earlier artifacts to the stages that leave it; schemas are read and checked
#   validate   rules that need more than one mapping: of merged levels, of names, of routes, of hooks
#   lower      specs to the plan, pinned to the texts of the files that it names
#
# No pass raises for a mistake of the user. It reports, leaves out what it can't use (None, or nothing), and
# the next pass works with the rest: a person who fixes a file wants all of its mistakes at once, and an agent
# that writes one pays for every further round. Only between validation and lowering does an error end the
# compilation, so that `lower` may take everything for sound.
#
# Rules apply to merged values wherever two levels can make a mistake together (`on_timeout` in stage.yaml,
# `timeout` in the node). They are in `validate`, `stage_rules` and `hook_rules`; what one mapping can do
# wrong by itself is found by its table. A diagnostic that a stage causes in every node that uses it is
# reported once (`Report` drops equal ones).

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from posixpath import basename, dirname, join
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.artifacts import supply
from agentforge.definition.delivery import delivered
from agentforge.definition.link import link
from agentforge.definition.local_network import as_local
from agentforge.definition.lower import DEFAULT_RUNS, CompilationContext, lower, pin
from agentforge.definition.machine import Machine
from agentforge.definition.precedence import OverrideLevels, gather
from agentforge.definition.read.file_keys import read_pipeline
from agentforge.definition.read.table import MappingSpec
from agentforge.definition.read.values import COUNT, refuse_control_characters
from agentforge.definition.read.work_keys import TERMINATION
from agentforge.definition.report import Report, SourceText, relative
from agentforge.definition.resolve import (
    Assembly,
    Located,
    StageLookup,
    find_pipeline,
    is_stage_name,
    missing_pipeline,
)
from agentforge.definition.run_overrides import read_run_overrides
from agentforge.definition.schemas import Schemas
from agentforge.definition.settings import Settings, read_settings
from agentforge.definition.specs import (
    NodeSpec,
    PipelineSpec,
    ResolvedNested,
    ResolvedPipeline,
    WorkSpec,
)
from agentforge.definition.stage_settings import StageSettings
from agentforge.definition.validate import Validation
from agentforge.definition.yaml_tree import Written, parse_mapping
from agentforge.model.diagnostic import Diagnostic, SourcePlace
from agentforge.model.errors import DefinitionError, StorageFailed
from agentforge.model.names import control_character, session_name
from agentforge.model.plan import Mode, Overrides, PipelineInfo, Plan
from agentforge.ports.sources import MAX_INPUTS, Sources

INLINE = "<inline>"
PipelineSource = str | Mapping[str, Any]
"""A file, a name, YAML text (with a newline), or a mapping."""
_NO_OVERRIDES = Overrides()
_MACHINE = Machine()
# JSON allows these in strings; YAML rejects them or reads them as line breaks.
_NOT_YAML_SAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


ProviderPlaces = Mapping[str, tuple[SourcePlace, str]]
"""Where each provider is first named, and that line."""


class Compiled(Struct, frozen=True):
    plan: Plan
    warnings: tuple[Diagnostic, ...]
    source: SourceText
    """The text that the plan's hash covers."""
    providers: ProviderPlaces = {}


class Compilation:
    def __init__(
        self,
        sources: Sources,
        session: str | None,
        overrides: Overrides,
        machine: Machine,
        report: Report,
    ) -> None:
        """Without a session, the run is named after its pipeline."""
        self._sources = sources
        self._session = session if session is None else session_name(session)
        self._report = report
        self._machine = machine
        self._settings = Settings()
        if machine.has_settings:
            self._settings = read_settings(sources, report, given=overrides.orchestration, is_lazy=True)
        self._run = read_run_overrides(overrides, report)
        self._override_levels: OverrideLevels = gather(
            sources.environment, self._run.kept(overrides), report, self._run.levels
        )

    def pipeline(self, source: SourceText, beside: str, path: str, passes: int) -> Compiled:
        """`path` is the file's path, to detect a pipeline that includes itself."""
        tree = parse_mapping(source, self._report)
        if tree is None:
            raise DefinitionError(self._report.diagnostics)
        spec = read_pipeline(source, tree, self._report)
        return self._finish("pipeline", Located(spec, beside, (path,)), passes)

    def stage(self, name: str) -> Compiled:
        max_iterations = self._override_levels.overrides.max_iterations
        at = self._report.argument(name)
        ref = Written(name, at)
        lookup = StageLookup(self._sources, self._sources.project, self._report)
        found = lookup.find(ref) if is_stage_name(name) else None
        source = found.spec.source if found and found.spec else SourceText(name, "")
        work = WorkSpec()
        if max_iterations is not None:
            runs = Written(max_iterations, self._report.argument(f"{name} {max_iterations}"))
            COUNT.validate(runs, "`runs`", self._report)
            work = WorkSpec({"termination": MappingSpec(TERMINATION, at, {"max": runs})})
        node = NodeSpec(at, Written(basename(name), at), ref, work)
        notify = found.spec.notify if found and found.spec else ()
        values = {"notify": notify, "request": "optional"}
        spec = PipelineSpec(source, basename(name), (node,), values=values)
        return self._finish("loop", Located(spec, self._sources.project, ()), 1)

    def _finish(self, mode: Mode, located: Located, passes: int) -> Compiled:
        report, given = self._report, self._override_levels.overrides
        applied = StageSettings(self._settings, self._machine, self._sources, report)
        located = replace(located, spec=self._run.to_pipeline(applied.to_pipeline(located.spec)))
        pipeline = Assembly(self._sources, report, self._override_levels.levels, applied).pipeline(located)
        pipeline = self._run.ended(pipeline, report)
        asked = self._run.delivery
        pipeline = delivered(pipeline, asked or self._settings.delivery, is_asked=asked is not None)
        schemas = Schemas(self._sources, self._report)
        supplied = supply(pipeline, link(pipeline, self._report), schemas, self._report)
        for value in filter(control_character, (given.provider or "", given.model or "", *given.inputs)):
            refuse_control_characters(value, "the argument", self._report.argument(value), self._report)
        parts = list(_pipelines(pipeline))
        applied.validate(parts)
        validation = Validation(
            self._sources,
            self._override_levels,
            self._machine,
            self._report,
            given=supplied.places if mode == "pipeline" else None,
        )
        validation.run(parts, DEFAULT_RUNS[mode], passes)
        compiled_at, created_at = self._time("COMPILE_TIMESTAMP"), self._time("SESSION_CREATED_AT")
        inputs = _session_inputs(self._sources, given.inputs, [part.spec for part in parts], self._report)
        if self._report.has_errors:
            raise DefinitionError(self._report.diagnostics)
        session = self._session or default_session(located.spec.name, self._sources.now())
        context = CompilationContext(
            mode, self._sources.project, session, inputs, compiled_at, created_at, self._override_levels
        )
        plan = pin(lower(pipeline, supplied.links, schemas, context, passes), self._sources, self._report)
        if self._report.has_errors:
            raise DefinitionError(self._report.diagnostics)
        written = [part.spec.get("network") for part in parts]
        if self._settings.is_local or given.local or any(rule and rule.value == "local" for rule in written):
            plan = as_local(plan)
        limits = self._settings.limits.items()
        of_user = {name: value.value for name, value in limits if name in PipelineInfo.__struct_fields__}
        info = replace(plan.pipeline, settings=applied.used, **of_user)
        plan = replace(plan, pipeline=info)
        named = {name: (at, self._report.line(at)) for name, at in validation.places.items()}
        return Compiled(plan, self._report.diagnostics, located.spec.source, named)

    def _time(self, variable: str) -> datetime:
        """The current time, or the value of a variable for reproducible output."""
        text = self._sources.environment.get(variable)
        if not text:
            return self._sources.now().astimezone(UTC).replace(microsecond=0)
        try:
            time = msgspec.convert(text, datetime)
        except msgspec.ValidationError:
            at = self._report.variable(variable, text)
            hint = "for example 2026-01-31T12:00:00Z"
            self._report.error("bad-value", at, f"{variable} must be a timestamp, got {text!r}", hint)
            return self._sources.now()
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _pipelines(pipeline: ResolvedPipeline) -> Iterator[ResolvedPipeline]:
    """The pipeline and all nested ones."""
    yield pipeline
    for node in pipeline.nodes:
        if isinstance(node, ResolvedNested):
            yield from _pipelines(node.pipeline)


def _session_inputs(
    sources: Sources, given: tuple[str, ...], specs: Iterable[PipelineSpec], report: Report
) -> tuple[str, ...]:
    """The input files of a run, from the caller and the pipelines: sorted, without duplicates."""
    found: set[str] = set()
    typed = [Written(pattern, report.argument(f"--input {pattern}")) for pattern in given]
    for written in (*typed, *(written for spec in specs for written in spec.get("inputs") or ())):
        files, message = sources.expand(written.value), f"no file matches the input `{written.value}`"
        found.update(files or ())
        if files is None:
            message = f"the input `{written.value}` matches more than {MAX_INPUTS} files"
            message += ", or has too many files to search"
            report.error("too-many-inputs", written.at, message, "use a narrower pattern or a smaller folder")
        elif not files and written in typed:
            hint = "use a file, glob or folder, relative to the project"
            report.error("missing-input", written.at, message, hint)
        elif not files:
            report.warning("missing-input", written.at, message, hint="the run starts without it")
    return tuple(sorted(found))


def default_session(pipeline: str, now: datetime) -> str:
    """The name of the pipeline with a timestamp."""
    usable = re.sub(r"[^\w-]+", "-", pipeline)[:40].strip("-") or "pipeline"
    return f"{usable}-{now:%Y%m%d-%H%M%S}"


def compile_pipeline(
    sources: Sources,
    pipeline: PipelineSource,
    session: str | None = None,
    overrides: Overrides = _NO_OVERRIDES,
    machine: Machine = _MACHINE,
    *,
    passes: int = 1,
) -> Compiled:
    """Compile a pipeline to the plan of a run. `passes` is how often the whole pipeline runs.

    Raises DefinitionError with all diagnostics, including warnings.
    """
    report = Report()
    compilation = Compilation(sources, session, overrides, machine, report)
    if not isinstance(pipeline, str) or "\n" in pipeline:
        text = pipeline if isinstance(pipeline, str) else _to_yaml(pipeline, report)
        return compilation.pipeline(SourceText(INLINE, text), sources.project, INLINE, passes)
    path = find_pipeline(sources, pipeline)
    if path is None:
        report.error("unknown-pipeline", report.argument(pipeline), *missing_pipeline(sources, pipeline))
        raise DefinitionError(report.diagnostics)
    source = SourceText(relative(sources.project, path), sources.read(path) or "")
    return compilation.pipeline(source, dirname(path), path, passes)


def compile_text(
    sources: Sources, name: str, text: str, session: str, machine: Machine = _MACHINE
) -> Compiled:
    """Compile a text as if it were stored at `name` (relative to the project)."""
    path = join(sources.project, name)
    work = Compilation(sources, session, _NO_OVERRIDES, machine, Report())
    return work.pipeline(SourceText(name, text), dirname(path), path, 1)


def compile_stage(
    sources: Sources,
    stage: str,
    session: str | None = None,
    overrides: Overrides = _NO_OVERRIDES,
    machine: Machine = _MACHINE,
) -> Compiled:
    """Compile a single stage as a run, named after the stage by default."""
    name = stage if session is None else session
    return Compilation(sources, name, overrides, machine, Report()).stage(stage)


def lint(
    sources: Sources, target: str, kind: Literal["pipeline", "stage"], machine: Machine = _MACHINE
) -> tuple[list[Diagnostic], Compiled | None]:
    """All diagnostics of a pipeline or stage, and its plan unless one of them is an error."""
    try:
        if kind == "pipeline":
            compiled = compile_pipeline(sources, target, "lint", machine=machine)
        else:
            compiled = compile_stage(sources, target, "lint", machine=machine)
    except DefinitionError as error:
        return list(error.diagnostics), None
    except StorageFailed as error:
        return [Diagnostic("unreadable", "error", error.message, SourcePlace(target, 1, 1), error.hint)], None
    return list(compiled.warnings), compiled


def _to_yaml(pipeline: Mapping[str, Any], report: Report) -> str:
    """Convert a mapping to JSON, which is valid YAML, so that it is compiled like a text."""
    try:
        text = msgspec.json.format(msgspec.json.encode(dict(pipeline)), indent=2).decode()
        return _NOT_YAML_SAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        at = report.argument(INLINE)
        report.error(
            "bad-type", at, f"the pipeline must be plain data: {error}", "use dicts, lists and scalars"
        )
        raise DefinitionError(report.diagnostics) from error
