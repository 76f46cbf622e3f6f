"""A pipeline whose names are looked up: which stages, prompts and pipelines its nodes mean."""

from msgspec import Struct

from agentforge.definition.spec import BlockSpec, NodeSpec, PipelineSpec, StageSpec, WorkSpec


class ResolvedStage(Struct, frozen=True):
    spec: NodeSpec
    stage: StageSpec | None
    """None where the node is all there is, or where the stage wasn't found."""
    prompt_path: str | None
    """Absolute; None where the node says its prompt itself, or none is found and the report says so."""
    is_found: bool = True
    """False, and a diagnostic, where the stage that the node names can't be found or read."""

    @property
    def stage_work(self) -> WorkSpec:
        return self.stage.work if self.stage else WorkSpec()


class ResolvedBlock(Struct, frozen=True):
    spec: NodeSpec
    block: BlockSpec
    stages: tuple[ResolvedStage | None, ...]


class ResolvedNested(Struct, frozen=True):
    spec: NodeSpec
    pipeline: "ResolvedPipeline"


ResolvedNode = ResolvedStage | ResolvedBlock | ResolvedNested


class ResolvedPipeline(Struct, frozen=True):
    spec: PipelineSpec
    nodes: tuple[ResolvedNode | None, ...]
    """One for each of the spec's nodes; None where the report says why."""
