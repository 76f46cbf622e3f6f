"""The compiled pipeline. Its encoding is plan.json; the copy in the log is what a run is pinned to."""

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, get_args

from msgspec import Struct, field

PLAN_VERSION = 1

Mode = Literal["loop", "pipeline"]
Select = Literal["latest", "all"]


class PlanSource(Struct, frozen=True):
    path: str
    sha256: str


class PlanSession(Struct, frozen=True):
    name: str
    created_at: datetime
    inputs: tuple[str, ...] = ()


class Overrides(Struct, frozen=True, omit_defaults=True):
    """What the command line or the caller asked for, above everything written in files."""

    provider: str | None = None
    model: str | None = None
    context: str | None = None
    inputs: tuple[str, ...] = ()
    commands: dict[str, str] = field(default_factory=dict)
    max_iterations: int | None = None
    """Of a single stage."""
    config: dict[str, Any] = field(default_factory=dict)
    """Settings of the provider's own, above those in files."""


class Guardrails(Struct, frozen=True, omit_defaults=True):
    max_runtime_seconds: float | None = None


class PipelineInfo(Struct, frozen=True, omit_defaults=True):
    name: str
    overrides: Overrides
    commands: dict[str, str]
    description: str | None = None
    inputs: tuple[str, ...] | None = None
    guardrails: Guardrails | None = None
    """Of the run as a whole."""


class ProviderChoice(Struct, frozen=True, omit_defaults=True):
    type: str
    model: str
    config: dict[str, Any] = field(default_factory=dict)
    """Passed to the provider as it stands: argv of `command`, the cassette of `replay`."""


SandboxType = Literal["none", "bwrap", "docker"]
SANDBOXES: tuple[SandboxType, ...] = get_args(SandboxType)


class SandboxChoice(Struct, frozen=True, omit_defaults=True):
    """What a stage's agents are confined by."""

    type: SandboxType = "none"
    network: bool = True
    image: str | None = None
    """Of `docker`."""
    writable: tuple[str, ...] = ()
    """Further paths that agents may write to; relative ones begin at the workspace."""
    hidden: tuple[str, ...] = ()
    """Further paths that agents don't see at all."""


OnLimit = Literal["wait", "next", "fail"]


class LimitPolicy(Struct, frozen=True):
    """What to do when a quota or a rate limit is met."""

    do: OnLimit = "next"
    """`next`: the next provider of the chain that isn't at its limit, else wait."""
    initial_delay: float = 60.0
    """Where the provider doesn't say until when; doubled each time."""
    max_delay: float = 900.0
    max_wait: float = 86_400.0
    """A wait that would be longer asks a person instead."""


Semantics = Literal["at_least_once", "at_most_once"]


class Fixed(Struct, frozen=True, tag="fixed", tag_field="type", omit_defaults=True):
    """Ends after `max` iterations, or earlier when the agent says stop."""

    max: int
    iterations: int | None = None


class Judgment(Struct, frozen=True, tag="judgment", tag_field="type", omit_defaults=True):
    """Ends when an external judge says stop so many times in a row, after the first few iterations."""

    max: int
    min_iterations: int | None = None
    consensus: int | None = None
    iterations: int | None = None

    @property
    def judged_from(self) -> int:
        return 1 if self.min_iterations is None else self.min_iterations

    @property
    def stops_wanted(self) -> int:
        return 2 if self.consensus is None else self.consensus


class Queue(Struct, frozen=True, tag="queue", tag_field="type", omit_defaults=True):
    """Ends when the queue of tasks for this session is empty."""

    max: int
    check_before: bool = False
    """Look at the queue before the first iteration, too."""
    command: str | None = None
    iterations: int | None = None


Termination = Fixed | Judgment | Queue


class RetryPolicy(Struct, frozen=True):
    max_attempts: int = 2
    initial_delay: float = 2.0
    multiplier: float = 2.0
    max_delay: float = 30.0


class FromStage(Struct, frozen=True):
    """The outputs of an earlier stage."""

    id: str
    path: str
    select: Select = "latest"
    provider: str | None = None
    """The branch whose stage it is, for a stage of the same block."""


class FromParallel(Struct, frozen=True):
    """The outputs of a stage in an earlier parallel block."""

    stage: str
    block: str
    path: str
    """Of the block."""
    providers: tuple[str, ...]
    select: Select = "latest"


class InputSources(Struct, frozen=True, omit_defaults=True):
    from_stage: tuple[FromStage, ...] = ()
    from_parallel: tuple[FromParallel, ...] = ()
    parallel_list: bool = False
    """Whether `from_parallel` was written as a list, and so is one in context.json."""


class StageNode(Struct, frozen=True, tag="stage", tag_field="kind", omit_defaults=True):
    path: str
    id: str
    stage: str
    runs: int
    termination: Termination
    inputs: dict[str, Any]
    provider: ProviderChoice
    sources: "InputSources | None" = None
    """Where `inputs` come from, resolved."""
    ref: str | None = None
    name: str | None = None
    """What stage.yaml calls itself, where that differs from `ref`."""
    description: str | None = None
    prompt_path: str | None = None
    prompt: str | None = None
    context: str | None = None
    output_path: str | None = None
    delay: float | None = None
    commands: dict[str, str] = field(default_factory=dict)
    timeout: float | None = None
    idle_timeout: float | None = None
    retry: RetryPolicy | None = None
    guardrails: Guardrails | None = None
    fallbacks: tuple[ProviderChoice, ...] = ()
    """Who takes over, in this order, when the provider can't work."""
    on_limit: LimitPolicy | None = None
    semantics: Semantics = "at_least_once"
    """`at_most_once`: whether an attempt that came to nothing is made again is for a person to say."""
    sandbox: SandboxChoice | None = None

    @property
    def chain(self) -> tuple[ProviderChoice, ...]:
        return (self.provider, *self.fallbacks)

    def chosen(self, choice: int) -> ProviderChoice:
        """One of the chain; the first, where a log or an older plan had more of them."""
        return self.fallbacks[choice - 1] if 0 < choice <= len(self.fallbacks) else self.provider


class Branch(Struct, frozen=True):
    """What one provider of a parallel block does: the block's stages, with its own model and inputs."""

    provider: str
    stages: tuple[StageNode, ...]


class ParallelNode(Struct, frozen=True, tag="parallel", tag_field="kind", omit_defaults=True):
    path: str
    id: str
    providers: tuple[Any, ...]
    """As written: names, or mappings with a model and inputs."""
    stages: tuple[dict[str, Any], ...]
    """As written and resolved, without what each provider adds."""
    inputs: dict[str, Any]
    branches: tuple[Branch, ...]
    description: str | None = None
    failure_mode: str | None = None


class NestedNode(Struct, frozen=True, tag="pipeline", tag_field="kind", omit_defaults=True):
    """A pipeline inside a pipeline."""

    path: str
    id: str
    runs: int
    inputs: dict[str, Any]
    plan: "Plan"
    ref: str
    description: str | None = None


Node = StageNode | ParallelNode | NestedNode


class Plan(Struct, frozen=True, dict=True):
    mode: Mode
    compiled_at: datetime
    source: PlanSource
    session: PlanSession
    pipeline: PipelineInfo
    dependencies: dict[str, bool]
    nodes: tuple[Node, ...]
    passes: int = 1
    """How often the whole pipeline runs."""
    judge: ProviderChoice = ProviderChoice("claude", "haiku")
    """Who judges the iterations of judgment stages."""
    version: int = PLAN_VERSION

    @cached_property
    def steps(self) -> "tuple[Step, ...]":
        """Every place of the plan once, in the order of the file, those of nested pipelines included."""
        return tuple(_steps(self, "", ""))

    @cached_property
    def places(self) -> "dict[str, Step]":
        """The same by path."""
        return {step.path: step for step in self.steps}

    @property
    def only_stage(self) -> StageNode:
        """The stage of a single-stage run."""
        node = self.nodes[0]
        assert isinstance(node, StageNode)
        return node

    @cached_property
    def by_path(self) -> dict[str, "StageNode | ParallelNode"]:
        """Stages and blocks by the path that their events carry."""
        blocks = (step for step in self.steps if isinstance(step.node, ParallelNode))
        inner = {step.inner_path(stage): stage for step in blocks for stage in step.stages}
        return {step.path: step.node for step in self.steps} | inner

    def stage(self, path: str, branch: str | None = None) -> StageNode | None:
        """The stage at that path, in a block the one of that provider's branch; or None."""
        return self._stages.get((path, branch))

    @cached_property
    def _stages(self) -> dict[tuple[str, str | None], StageNode]:
        found: dict[tuple[str, str | None], StageNode] = {}
        for step in self.steps:
            if isinstance(step.node, StageNode):
                found[step.path, None] = step.node
                continue
            for branch in step.node.branches:
                found |= {(step.inner_path(stage), branch.provider): stage for stage in branch.stages}
        return found

    def providers(self) -> frozenset[str]:
        """The providers that a process needs in order to continue this run."""
        return frozenset(
            choice.type for step in self.steps for stage in step.stages for choice in stage.chain
        )

    @property
    def is_judged(self) -> bool:
        """Whether any stage asks the judge. A run goes on without one, so its provider is none of those
        above."""
        return any(isinstance(stage.termination, Judgment) for step in self.steps for stage in step.stages)


class Step(Struct, frozen=True):
    """A place of the plan: a stage or a block, and where it stands."""

    node: StageNode | ParallelNode
    path: str
    dir: str
    """Of its first visit, relative to the run's own directory."""

    @property
    def stages(self) -> tuple[StageNode, ...]:
        """All stages that run here, of every branch."""
        if isinstance(self.node, StageNode):
            return (self.node,)
        return tuple(stage for branch in self.node.branches for stage in branch.stages)

    def inner_path(self, stage: StageNode) -> str:
        """The path of a stage of this block."""
        return f"{self.path.removesuffix(self.node.path)}{stage.path}"

    def branch(self, provider: str) -> tuple[StageNode, ...]:
        """The stages of one provider; none where this is no block or the provider isn't in it."""
        branches = self.node.branches if isinstance(self.node, ParallelNode) else ()
        return next((branch.stages for branch in branches if branch.provider == provider), ())


def _steps(plan: Plan, path: str, folder: str) -> Iterator[Step]:
    for index, node in enumerate(plan.nodes):
        here = f"{folder}{DIR_NAMES[type(node)]}-{index:02d}-{node.id}"
        if isinstance(node, NestedNode):
            yield from _steps(node.plan, f"{path}{node.path}.", f"{here}/")
        else:
            yield Step(node, f"{path}{node.path}", here)


def visit_dir(folder: str, run: int) -> str:
    """The first visit of a node lies flat, later ones in `run-002` and up: within the node's own folder, or
    within that of the pipeline that it is nested in."""
    if run == 1:
        return folder
    outermost, slash, rest = folder.partition("/")
    return f"{outermost}/run-{run:03d}{slash}{rest}"


DIR_NAMES: dict[type, str] = {StageNode: "stage", ParallelNode: "parallel", NestedNode: "pipeline"}
