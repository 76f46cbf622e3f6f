"""The contents of pipelines and stages: typed, with places; first as written, then with names resolved."""

from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from agentforge.definition.yaml.parser import SourceText
from agentforge.model.condition import Condition
from agentforge.model.diagnostic import SourcePlace
from agentforge.model.hook import Hook, Notification
from agentforge.model.plan import Fixed, Judgment, Queue, Termination

T = TypeVar("T")
FIXED = "fixed"
KINDS = (FIXED, "judgment", "queue")
UNSUPPORTED = ("items",)


class Written(Struct, Generic[T], frozen=True):
    """A value and its place in the source."""

    value: T
    at: SourcePlace


class ProviderSpec(Struct, frozen=True):
    type: Written[str] | None = None
    model: Written[str] | None = None
    config: dict[str, Any] = field(default_factory=dict)
    places: dict[str, SourcePlace] = field(default_factory=dict)
    """Of the settings in `config`."""
    fallbacks: "tuple[ProviderSpec, ...]" = ()
    """The remaining providers of a list."""


class TerminationSpec(Struct, frozen=True):
    type: Written[str] | None = None
    max: Written[int] | None = None
    iterations: Written[int] | None = None
    min_iterations: Written[int] | None = None
    consensus: Written[int] | None = None
    check_before: Written[bool] | None = None
    command: Written[str] | None = None

    @property
    def count(self) -> Written[int] | None:
        """The number of iterations, or None if it isn't set."""
        return self.max or self.iterations

    @property
    def kind(self) -> str:
        return self.type.value if self.type else FIXED

    def lowered(self, runs: int) -> Termination:
        """Settings that don't apply to the type are dropped: they were written for an overridden type."""
        if self.kind == "judgment":
            return Judgment(runs, _value(self.min_iterations), _value(self.consensus))
        if self.kind == "queue":
            command = self.command.value if self.command else None
            return Queue(runs, bool(self.check_before and self.check_before.value), command)
        return Fixed(runs)


class RetrySpec(Struct, frozen=True):
    max_attempts: Written[int] | None = None
    initial_delay: Written[float] | None = None
    multiplier: Written[float] | None = None
    max_delay: Written[float] | None = None
    stage: Written[int] | None = None


class LimitSpec(Struct, frozen=True):
    do: Written[str] | None = None
    initial_delay: Written[float] | None = None
    max_delay: Written[float] | None = None
    max_wait: Written[float] | None = None


class SandboxSpec(Struct, frozen=True):
    at: SourcePlace
    type: Written[str] | None = None
    network: Written[bool] | None = None
    image: Written[str] | None = None
    writable: tuple[Written[str], ...] | None = None
    hidden: tuple[Written[str], ...] | None = None


class PromptFile(Struct, frozen=True):
    path: Written[str]


class ApprovalSpec(Struct, frozen=True):
    message: Written[str] | None = None
    by: Written[str] | None = None
    timeout: Written[float] | None = None
    on_timeout: Written[str] | None = None
    rounds: Written[int] | None = None


class CheckSpec(Struct, frozen=True):
    at: SourcePlace
    name: Written[str]
    run: str | None = None
    """None: the command of that name."""
    expect: Written[str] | None = None
    parse: Written[str] | None = None
    report: Written[str] | None = None
    timeout: Written[float] | None = None
    when: Written[str] | None = None
    """`at`"""
    needs: Written[str] | None = None


class RouteSpec(Struct, frozen=True):
    verdict: Written[str]
    to: Written[str]


class CycleLimitSpec(Struct, frozen=True):
    at: SourcePlace
    cycles: Written[int] | None = None
    no_progress: Written[int] | None = None
    cluster: Written[int] | None = None
    runtime: Written[float] | None = None


ApprovalLevel = ApprovalSpec | Written[bool]
"""A flag switches approvals on or off; a mapping switches them on."""


class WorkSpec(Struct, frozen=True):
    """How to run a stage. A node, its stage and the pipeline's defaults may each set some of it."""

    provider: ProviderSpec | None = None
    description: Written[str] | None = None
    prompt: Written[str] | None = None
    prompt_file: Written[str] | None = None
    """`prompt: {file: …}` of a node; a stage.yaml names its file in `prompt`."""
    context: Written[str] | None = None
    output_path: Written[str] | None = None
    commands: dict[str, str] = field(default_factory=dict)
    runs: Written[int] | None = None
    termination: TerminationSpec | None = None
    check_before: Written[bool] | None = None
    delay: Written[float] | None = None
    timeout: Written[float] | None = None
    idle_timeout: Written[float] | None = None
    retry: RetrySpec | None = None
    max_runtime: Written[float] | None = None
    """`guardrails.max_runtime_seconds`"""
    on_limit: LimitSpec | None = None
    semantics: Written[str] | None = None
    result_instructions: Written[bool] | None = None
    sandbox: SandboxSpec | None = None
    approve: ApprovalLevel | None = None
    checks: tuple[CheckSpec, ...] | None = None
    verdicts: tuple[Written[str], ...] | None = None
    routes: tuple[RouteSpec, ...] | None = None
    """`on`"""
    limits: CycleLimitSpec | None = None


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
    failure_mode: Written[str] | None = None


class NodeSpec(Struct, frozen=True):
    at: SourcePlace
    id: Written[str] | None
    stage: Written[str] | None = None
    work: WorkSpec = WorkSpec()
    inputs: InputsSpec = InputsSpec()
    block: BlockSpec | None = None
    pipeline: Written[str] | None = None
    checkpoint: Written[str] | None = None
    is_stage: bool = True
    """Also False for a node of another kind that couldn't be read."""


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


class PipelineSpec(Struct, frozen=True):
    source: SourceText
    name: str
    nodes: tuple[NodeSpec, ...]
    levels: tuple[WorkSpec, ...] = ()
    """The pipeline's defaults, weakest first."""
    description: str | None = None
    inputs: tuple[Written[str], ...] | None = None
    commands: dict[str, str] = field(default_factory=dict)
    max_runtime: Written[float] | None = None
    limits: CycleLimitSpec | None = None
    views: tuple[Written[str], ...] = ()
    tmux: bool = True
    hooks: tuple[HookSpec, ...] = ()
    """In the order of the points, then as written."""
    notify: tuple[Written[Notification], ...] = ()


class ResolvedStage(Struct, frozen=True):
    spec: NodeSpec
    stage: StageSpec | None
    """None if the node has no stage, or if the stage wasn't found."""
    prompt_path: str | None
    """Absolute; None if the node has its prompt as text, or if no prompt was found."""
    is_found: bool = True
    """False if the node's stage can't be found or read; the report has the error."""

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


def merge(node: WorkSpec, stage: WorkSpec) -> TerminationSpec:
    """Merge key by key. The node overrides the stage; its `runs` also overrides the stage's `max`."""
    mine, theirs = node.termination or TerminationSpec(), stage.termination or TerminationSpec()
    return TerminationSpec(
        type=mine.type or theirs.type,
        max=mine.count or node.runs or theirs.count or stage.runs,
        min_iterations=mine.min_iterations or theirs.min_iterations,
        consensus=mine.consensus or theirs.consensus,
        check_before=mine.check_before or node.check_before or theirs.check_before or stage.check_before,
        command=mine.command or theirs.command,
    )


def _value(written: Written[int] | None) -> int | None:
    return written.value if written else None
