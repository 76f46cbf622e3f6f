"""The contents of pipelines and stages: typed, with places; first as written, then with names resolved."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from agentforge.definition.report import SourceText
from agentforge.definition.yaml_tree import Written
from agentforge.model.condition import Condition
from agentforge.model.diagnostic import SourcePlace
from agentforge.model.hook import Hook, Notification
from agentforge.model.plan import END, PASS

# A spec has classes only where code works with the parts. Plain keys are in `values`, by name, as their
# tables read them: a class with a field for each would have to be merged and copied to the plan by hand.
#
# What a spec doesn't say is None or missing, never the default of the plan. A default that is filled in here
# would be a value of this level, and override those of weaker ones.


class ProviderSpec(Struct, frozen=True):
    type: Written[str] | None = None
    model: Written[str] | None = None
    config: dict[str, Any] = field(default_factory=dict)
    places: dict[str, SourcePlace] = field(default_factory=dict)
    """Of the settings in `config`."""
    fallbacks: "tuple[ProviderSpec, ...]" = ()
    """The remaining providers of a list."""


class PromptFile(Struct, frozen=True):
    path: Written[str]


class RouteSpec(Struct, frozen=True):
    verdict: Written[str]
    to: Written[str]

    @property
    def ends_run(self) -> bool:
        """Whether the run is complete when the stage has passed."""
        return self.verdict.value == PASS and self.to.value == END


class WorkSpec(Struct, frozen=True):
    """One level of what says how to run a stage: a pipeline's defaults, a stage.yaml, a node, the caller."""

    values: dict[str, Any] = field(default_factory=dict)
    """By key, without those below; `termination` includes all older and shorter ways to write it."""
    provider: ProviderSpec | None = None
    """With `model` and `provider_config`."""
    prompt: Written[str] | None = None
    prompt_file: Written[str] | None = None
    """`prompt: {file: …}` of a node; a stage.yaml names its file in `prompt`."""

    def get(self, name: str) -> Any:
        return self.values.get(name)


class ParallelRef(Struct, frozen=True):
    """One entry of `from_parallel`."""

    at: SourcePlace
    stage: Written[str]
    block: Written[str] | None = None
    providers: tuple[Written[str], ...] | None = None
    select: Written[str] | None = None


class InputsSpec(Struct, frozen=True):
    """The inputs of a node, by the ids of other nodes."""

    written: dict[str, Any] = field(default_factory=dict)
    stages: tuple[Written[str], ...] = ()
    """`from`"""
    select: Written[str] | None = None
    parallel: tuple[ParallelRef, ...] = ()
    parallel_list: bool = False
    """Whether `from_parallel` is written as a list."""
    artifact: tuple[Written[str], ...] = ()
    """The fields of earlier artifacts that are needed."""


class BranchSpec(Struct, frozen=True):
    """One of a block's providers."""

    at: SourcePlace
    name: Written[str] | None
    provider: ProviderSpec
    written: Any
    inputs: InputsSpec = InputsSpec()


class BlockSpec(Struct, frozen=True):
    at: SourcePlace
    branches: tuple[BranchSpec, ...]
    stages: "tuple[NodeSpec, ...]"
    values: dict[str, Any] = field(default_factory=dict)
    """Of its other keys."""


class NodeSpec(Struct, frozen=True):
    at: SourcePlace
    id: Written[str] | None
    stage: Written[str] | None = None
    work: WorkSpec = WorkSpec()
    inputs: InputsSpec = InputsSpec()
    block: BlockSpec | None = None
    pipeline: Written[str] | None = None
    configured: WorkSpec = WorkSpec()
    """What the project's file for the stage says, in pipelines of the controller."""
    enabled: Written[bool] | None = None
    """Whether a template leaves the stage out; None: as that file says."""
    executor: Written[str] | None = None
    """Its id, if the calling program runs it."""
    is_stage: bool = True
    """Also False for a node of another kind that couldn't be read."""


def ids_of(nodes: Iterable[NodeSpec]) -> list[str]:
    """Those that are written."""
    return [node.id.value for node in nodes if node.id]


class HookSpec(Struct, frozen=True):
    at: SourcePlace
    hook: Hook
    """Without what is named here."""
    id: Written[str] | None = None
    stage: Written[str] | None = None
    condition: Written[Condition] | None = None


class StageSpec(Struct, frozen=True):
    source: SourceText
    work: WorkSpec
    name: Written[str] | None = None
    notify: tuple[Written[Notification], ...] = ()
    """For runs of the stage alone."""
    needs: tuple[Written[str], ...] = ()
    """The fields of earlier artifacts that it needs, wherever it is used."""


class StageFile(Struct, frozen=True):
    """What a project says of a stage, in a file for all of its templates or in one of them."""

    at: SourcePlace
    enabled: Written[bool] | None = None
    work: WorkSpec = WorkSpec()


class PipelineSpec(Struct, frozen=True):
    source: SourceText
    name: str
    nodes: tuple[NodeSpec, ...]
    levels: tuple[WorkSpec, ...] = ()
    """The pipeline's defaults, weakest first."""
    values: dict[str, Any] = field(default_factory=dict)
    """Of the keys that are about the pipeline itself."""
    hooks: tuple[HookSpec, ...] = ()
    """In the order of the points, then as written."""

    @property
    def has_controller_view(self) -> bool:
        return any(view.value == "controller" for view in self.get("views") or ())

    def get(self, name: str) -> Any:
        return self.values.get(name)


class ResolvedStage(Struct, frozen=True):
    spec: NodeSpec
    stage: StageSpec | None
    """None if the node has no stage, or if the stage wasn't found."""
    prompt_path: str | None
    """Absolute; None if the node has its prompt as text, or if no prompt was found."""
    is_found: bool = True
    """False if the node's stage can't be found or read; the report has the error."""
    around: tuple[WorkSpec, ...] = ()
    """The levels of the pipelines and of the block around it."""
    overrides: tuple[WorkSpec, ...] = ()
    """The levels of the environment and the caller."""

    @property
    def levels(self) -> tuple[WorkSpec, ...]:
        """All that may set a key of this stage, weakest first. This is the only place that says the order."""
        return (*self.around, self.stage_work, self.spec.configured, self.spec.work, *self.overrides)

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
    """One for each of the spec's nodes; None if it is invalid."""
