"""Third pass, put together: a pipeline with everything that its nodes name, pipelines included."""

from posixpath import dirname

from msgspec import Struct

from agentforge.definition.diagnostics import Report, choice
from agentforge.definition.file_keys import read_pipeline
from agentforge.definition.resolve import StageLookup, find_pipeline, pipeline_names
from agentforge.definition.source import SourceText, parse_mapping, relative
from agentforge.definition.spec import (
    NodeSpec,
    PipelineSpec,
    ResolvedBlock,
    ResolvedNested,
    ResolvedNode,
    ResolvedPipeline,
    ResolvedStage,
    Written,
)
from agentforge.ports.sources import Sources

# Pipelines that include each other twice double with every level, so their sum is bounded while assembling.
MAX_NODES = 5_000
MAX_DEPTH = 16


class Located(Struct, frozen=True):
    """A pipeline and where it was found, which is where its own names are looked up from."""

    spec: PipelineSpec
    beside: str
    chain: tuple[str, ...]
    """The files that led here, itself last."""


class Assembly:
    def __init__(self, sources: Sources, report: Report) -> None:
        self._sources = sources
        self._report = report
        self._nodes = 0

    def pipeline(self, located: Located) -> ResolvedPipeline:
        lookup = StageLookup(self._sources, located.beside, self._report)
        self._nodes += sum(1 + len(node.block.stages if node.block else ()) for node in located.spec.nodes)
        nodes = tuple(self._node(node, located, lookup) for node in located.spec.nodes)
        return ResolvedPipeline(located.spec, nodes)

    def _node(self, node: NodeSpec, located: Located, lookup: StageLookup) -> ResolvedNode | None:
        if node.block:
            stages = tuple(_stage(stage, lookup) for stage in node.block.stages)
            return ResolvedBlock(node, node.block, stages)
        if node.pipeline:
            nested = self._nested(node.pipeline, located)
            return ResolvedNested(node, self.pipeline(nested)) if nested else None
        return _stage(node, lookup)

    def _nested(self, ref: Written[str], located: Located) -> Located | None:
        path = find_pipeline(self._sources, ref.value, located.beside)
        if path is None:
            hint = choice(ref.value, "pipelines", pipeline_names(self._sources))
            self._report.error("unknown-pipeline", ref.at, f"no pipeline file or name `{ref.value}`", hint)
            return None
        if path in located.chain:
            chain = " → ".join(self._shown(step) for step in (*located.chain, path))
            message = f"the pipeline includes itself: {chain}"
            self._report.error("recursive-pipeline", ref.at, message, hint="break the circle")
            return None
        if len(located.chain) >= MAX_DEPTH or self._nodes > MAX_NODES:
            message = f"pipelines within pipelines: more than {MAX_DEPTH} deep or {MAX_NODES} nodes"
            self._report.error("too-large", ref.at, message)
            return None
        return self._read(path, located)

    def _read(self, path: str, located: Located) -> Located | None:
        source = SourceText(self._shown(path), self._sources.read(path) or "")
        tree = parse_mapping(source, self._report)
        if tree is None:
            return None
        spec = read_pipeline(source, tree, self._report)
        return Located(spec, dirname(path), (*located.chain, path))

    def _shown(self, path: str) -> str:
        return relative(self._sources.project, path)


def _stage(node: NodeSpec, lookup: StageLookup) -> ResolvedStage | None:
    return lookup.resolve(node) if node.is_stage else None
