"""The compiler's entry points: from a name, a file, a stage or a text to a Plan, or to all diagnostics."""

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from posixpath import basename, dirname
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agentforge.definition.check import (
    check_node,
    check_pipeline,
    check_provider,
    check_stage,
    is_stage_name,
)
from agentforge.definition.diagnostics import Report
from agentforge.definition.inputs import session_inputs
from agentforge.definition.lower import Setting, lower, provider_levels
from agentforge.definition.paths import relative
from agentforge.definition.precedence import DEFAULT_PROVIDER, Above, gather, naming_level
from agentforge.definition.reading import read_pipeline
from agentforge.definition.resolve import ResolvedNode, StageLookup, find_pipeline, pipeline_names
from agentforge.definition.source import SourceText, parse_mapping
from agentforge.definition.spec import NodeSpec, PipelineSpec, WorkSpec, Written
from agentforge.definition.suggest import choice
from agentforge.model.diagnostic import Diagnostic
from agentforge.model.errors import DefinitionError
from agentforge.model.ids import session_name
from agentforge.model.plan import Mode, Overrides, Plan
from agentforge.ports.sources import Sources

INLINE = "<inline>"
_NO_OVERRIDES = Overrides()
# Inside strings JSON allows these as they are; YAML doesn't, or reads them as line ends.
_NOT_ALIKE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class Compiled(Struct, frozen=True):
    plan: Plan
    warnings: tuple[Diagnostic, ...]
    source: SourceText
    """The text that the plan's hash is of."""


def compile_pipeline(
    sources: Sources,
    name: str,
    session: str,
    overrides: Overrides = _NO_OVERRIDES,
    *,
    known_providers: Collection[str] | None = None,
) -> Compiled:
    """A pipeline by its path (relative to the project) or its name.

    Raises DefinitionError with everything that was found, warnings included.
    """
    report = Report()
    path = find_pipeline(sources, name)
    if path is None:
        at = report.argument(name)
        hint = choice(name, "pipelines", pipeline_names(sources))
        report.error("unknown-pipeline", at, f"no pipeline file or name `{name}`", hint)
        raise DefinitionError(report.diagnostics)
    source = SourceText(relative(sources.project, path), sources.read(path) or "")
    work = _Compilation(sources, session, overrides, known_providers, report)
    return work.pipeline(source, dirname(path))


def compile_text(
    sources: Sources,
    pipeline: str | Mapping[str, Any],
    session: str,
    overrides: Overrides = _NO_OVERRIDES,
    *,
    known_providers: Collection[str] | None = None,
) -> Compiled:
    """A pipeline given as YAML text or as a mapping; its stages are looked up from the project's root."""
    report = Report()
    source = SourceText(INLINE, pipeline if isinstance(pipeline, str) else _as_text(pipeline, report))
    work = _Compilation(sources, session, overrides, known_providers, report)
    return work.pipeline(source, sources.project)


def compile_stage(
    sources: Sources,
    stage: str,
    session: str,
    max_iterations: int | None = None,
    overrides: Overrides = _NO_OVERRIDES,
    *,
    known_providers: Collection[str] | None = None,
) -> Compiled:
    """A single stage as a run of its own; `max_iterations` outranks what the stage says."""
    return _Compilation(sources, session, overrides, known_providers, Report()).stage(stage, max_iterations)


def lint(
    sources: Sources,
    target: str,
    kind: Literal["pipeline", "stage"] | None = None,
    *,
    known_providers: Collection[str] | None = None,
) -> list[Diagnostic]:
    """Everything there is to say about a pipeline or stage; empty when all is well.

    Without a kind the target is a pipeline if one is found under that name, else a stage.
    """
    if kind is None:
        kind = "stage" if find_pipeline(sources, target) is None and is_stage_name(target) else "pipeline"
    try:
        if kind == "pipeline":
            compiled = compile_pipeline(sources, target, "lint", known_providers=known_providers)
        else:
            compiled = compile_stage(sources, target, "lint", known_providers=known_providers)
    except DefinitionError as error:
        return list(error.diagnostics)
    return list(compiled.warnings)


class _Compilation:
    """One compilation: the passes in their order, one report over all files."""

    def __init__(
        self,
        sources: Sources,
        session: str,
        overrides: Overrides,
        known_providers: Collection[str] | None,
        report: Report,
    ) -> None:
        self._sources = sources
        self._session = session_name(session)
        self._known_providers = known_providers
        self._report = report
        self._above: Above = gather(sources.environment, overrides, report)

    def pipeline(self, source: SourceText, beside: str) -> Compiled:
        tree = parse_mapping(source, self._report)
        if tree is None:
            raise DefinitionError(self._report.diagnostics)
        spec = read_pipeline(source, tree, self._report)
        return self._finish("pipeline", spec, StageLookup(self._sources, beside, self._report))

    def stage(self, name: str, max_iterations: int | None) -> Compiled:
        at = self._report.argument(name)
        lookup = StageLookup(self._sources, self._sources.project, self._report)
        ref = Written(name, at)
        found = lookup.find(ref) if is_stage_name(name) else None
        source = found.spec.source if found and found.spec else SourceText(name, "")
        runs = None
        if max_iterations is not None:
            runs = Written(max_iterations, self._report.argument(f"{name} {max_iterations}"))
        node = NodeSpec(at, Written(basename(name), at), ref, WorkSpec(runs=runs))
        return self._finish("loop", PipelineSpec(source, basename(name), (node,)), lookup)

    def _finish(self, mode: Mode, spec: PipelineSpec, lookup: StageLookup) -> Compiled:
        nodes = self._resolve(spec, lookup)
        self._check(spec, nodes)
        compiled_at, created_at = self._time("COMPILE_TIMESTAMP"), self._time("SESSION_CREATED_AT")
        inputs = session_inputs(self._sources, self._above.overrides.inputs, spec, self._report)
        if self._report.has_errors:
            raise DefinitionError(self._report.diagnostics)
        setting = Setting(
            mode, self._sources.project, self._session, inputs, compiled_at, created_at, self._above
        )
        return Compiled(lower(spec, nodes, setting), self._report.diagnostics, spec.source)

    def _resolve(self, spec: PipelineSpec, lookup: StageLookup) -> list[ResolvedNode]:
        usable = [
            node
            for node in spec.nodes
            if node.is_stage and (not node.stage or is_stage_name(node.stage.value))
        ]
        return [resolved for node in usable if (resolved := lookup.resolve(node))]

    def _check(self, spec: PipelineSpec, nodes: list[ResolvedNode]) -> None:
        check_pipeline(spec, self._report)
        for node in nodes:
            if node.stage:
                check_stage(node.stage, self._report)
            check_node(node, self._report)
            named = naming_level(provider_levels(spec, node, self._above))
            named = named or Written(DEFAULT_PROVIDER, node.spec.at)
            check_provider(named, self._known_providers, self._report)

    def _time(self, variable: str) -> datetime:
        """Now, unless a variable fixes it for output that can be compared."""
        text = self._sources.environment.get(variable)
        if not text:
            return self._sources.now().astimezone(UTC).replace(microsecond=0)
        try:
            time = msgspec.convert(text, datetime)
        except msgspec.ValidationError:
            at = self._report.variable(variable, text)
            hint = "write it like 2026-01-31T12:00:00Z"
            self._report.error("bad-value", at, f"{variable} isn't a time", hint)
            return self._sources.now()
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _as_text(pipeline: Mapping[str, Any], report: Report) -> str:
    """JSON is YAML too, so a mapping takes the same way as a text, with places in that form."""
    try:
        text = msgspec.json.format(msgspec.json.encode(dict(pipeline)), indent=2).decode()
        return _NOT_ALIKE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        at = report.argument(INLINE)
        report.error(
            "bad-type", at, f"the pipeline isn't plain data: {error}", "use dicts, lists and scalars"
        )
        raise DefinitionError(report.diagnostics) from error
