"""One compilation: the passes in their order, one report over all files."""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from posixpath import basename

import msgspec
from msgspec import Struct

from agentforge.definition.assemble import Assembly, Located
from agentforge.definition.diagnostics import Report
from agentforge.definition.file_keys import read_pipeline
from agentforge.definition.kinds import COUNT
from agentforge.definition.link import link
from agentforge.definition.lower import DEFAULT_RUNS, Setting, lower, provider_levels
from agentforge.definition.precedence import DEFAULT_PROVIDER, JUDGE_PROVIDER, Above, gather, naming_level
from agentforge.definition.resolve import StageLookup, is_stage_name
from agentforge.definition.source import SourceText, parse_mapping
from agentforge.definition.spec import (
    BlockSpec,
    NodeSpec,
    PipelineSpec,
    ResolvedBlock,
    ResolvedNested,
    ResolvedPipeline,
    ResolvedStage,
    WorkSpec,
    Written,
)
from agentforge.definition.validate import (
    validate_nodes,
    validate_provider,
    validate_size,
    validate_termination,
)
from agentforge.model.diagnostic import Diagnostic
from agentforge.model.errors import DefinitionError
from agentforge.model.ids import session_name
from agentforge.model.plan import Mode, Overrides, Plan
from agentforge.ports.sources import Sources


class Compiled(Struct, frozen=True):
    plan: Plan
    warnings: tuple[Diagnostic, ...]
    source: SourceText
    """The text that the plan's hash is of."""


class Compilation:
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

    def pipeline(self, source: SourceText, beside: str, path: str, passes: int) -> Compiled:
        """`path` is the file's, so that a pipeline which includes itself is noticed."""
        tree = parse_mapping(source, self._report)
        if tree is None:
            raise DefinitionError(self._report.diagnostics)
        spec = read_pipeline(source, tree, self._report)
        return self._finish("pipeline", Located(spec, beside, (path,)), passes)

    def stage(self, name: str, max_iterations: int | None) -> Compiled:
        at = self._report.argument(name)
        ref = Written(name, at)
        lookup = StageLookup(self._sources, self._sources.project, self._report)
        found = lookup.find(ref) if is_stage_name(name) else None
        source = found.spec.source if found and found.spec else SourceText(name, "")
        runs = None
        if max_iterations is not None:
            runs = Written(max_iterations, self._report.argument(f"{name} {max_iterations}"))
            COUNT.validate(runs, "`runs`", self._report)
        node = NodeSpec(at, Written(basename(name), at), ref, WorkSpec(runs=runs))
        spec = PipelineSpec(source, basename(name), (node,))
        return self._finish("loop", Located(spec, self._sources.project, ()), 1)

    def _finish(self, mode: Mode, located: Located, passes: int) -> Compiled:
        pipeline = Assembly(self._sources, self._report).pipeline(located)
        links = link(pipeline, self._report)
        for part, depth in _pipelines(pipeline):
            self._validate(part, DEFAULT_RUNS["pipeline" if depth else mode], depth)
        validate_size(pipeline, passes, self._report)
        if judge := self._sources.environment.get(JUDGE_PROVIDER):
            self._validate_provider(Written(judge, self._report.variable(JUDGE_PROVIDER, judge)))
        compiled_at, created_at = self._time("COMPILE_TIMESTAMP"), self._time("SESSION_CREATED_AT")
        specs = [part.spec for part, _ in _pipelines(pipeline)]
        inputs = _session_inputs(self._sources, self._above.overrides.inputs, specs, self._report)
        if self._report.has_errors:
            raise DefinitionError(self._report.diagnostics)
        setting = Setting(
            mode, self._sources.project, self._session, inputs, compiled_at, created_at, self._above
        )
        plan = lower(pipeline, links, setting, passes)
        return Compiled(plan, self._report.diagnostics, located.spec.source)

    def _validate(self, pipeline: ResolvedPipeline, default_runs: int, depth: int) -> None:
        validate_nodes(pipeline.spec, self._report)
        limit = pipeline.spec.max_runtime
        if depth and limit:
            message = "`guardrails` of a pipeline within another have no effect"
            hint = "set them in the outermost pipeline or in the stages"
            self._report.warning("ignored-key", limit.at, message, hint)
        for node in pipeline.nodes:
            if isinstance(node, ResolvedBlock):
                self._validate_block(node.block)
                for stage in node.stages:
                    self._validate_stage(stage, default_runs)
            elif isinstance(node, ResolvedStage):
                self._validate_stage(node, default_runs)
                named = naming_level(provider_levels(pipeline.spec, node, self._above))
                for spec in (named, *named.fallbacks) if named else ():
                    if spec.type:
                        self._validate_provider(spec.type)
                if named is None and node.is_found:
                    self._validate_provider(Written(DEFAULT_PROVIDER, node.spec.at))

    def _validate_stage(self, node: ResolvedStage | None, default_runs: int) -> None:
        if node:
            validate_termination(node, default_runs, self._report)

    def _validate_block(self, block: BlockSpec) -> None:
        for branch in block.branches:
            if branch.provider.type:
                self._validate_provider(branch.provider.type)
        for level in self._above.providers:
            for said in (level.type, level.model):
                if said:
                    message = f"`{said.value}` doesn't change the providers and models of parallel blocks"
                    hint = "a block runs with the providers that it names"
                    self._report.warning("block-keeps-providers", said.at, message, hint)

    def _validate_provider(self, named: Written[str]) -> None:
        validate_provider(named, self._known_providers, self._report)

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


def _pipelines(pipeline: ResolvedPipeline, depth: int = 0) -> Iterator[tuple[ResolvedPipeline, int]]:
    """The pipeline and all within it, each with its depth."""
    yield pipeline, depth
    for node in pipeline.nodes:
        if isinstance(node, ResolvedNested):
            yield from _pipelines(node.pipeline, depth + 1)


def _session_inputs(
    sources: Sources, asked: tuple[str, ...], specs: Iterable[PipelineSpec], report: Report
) -> tuple[str, ...]:
    """The files that a run begins with: what the caller and the pipelines name, sorted, each once."""
    found: set[str] = set()
    for pattern in asked:
        files = sources.expand(pattern)
        found.update(files)
        if not files:
            report.error(
                "missing-input",
                report.argument(f"--input {pattern}"),
                f"no file fits the input `{pattern}`",
                hint="give a file, a glob or a folder, relative to the project",
            )
    for written in (written for spec in specs for written in spec.inputs or ()):
        files = sources.expand(written.value)
        found.update(files)
        if not files:
            message = f"no file fits the input `{written.value}`"
            report.warning("missing-input", written.at, message, hint="the run begins without it")
    return tuple(sorted(found))
