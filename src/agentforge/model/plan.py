"""The compiled pipeline. Its encoding is plan.json; the copy in the log is what a run is pinned to."""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cached_property, reduce
from posixpath import normpath
from typing import Any, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from agentforge.model.artifact import ArtifactRule, ResultField, Strategy
from agentforge.model.check import Check
from agentforge.model.delivery import DeliverRule, DeliveryMode
from agentforge.model.hook import Hook, HookPoint, Notification
from agentforge.model.request import Answerer
from agentforge.model.spending import Amount, Unit, tightest_of

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
    """Values from the command line or the caller; they override the files."""

    provider: str | None = None
    model: str | None = None
    context: str | None = None
    inputs: tuple[str, ...] = ()
    commands: dict[str, str] = field(default_factory=dict)
    max_iterations: int | None = None
    """For single-stage runs."""
    config: dict[str, Any] = field(default_factory=dict)
    """Provider settings; they override those in files."""
    local: bool = False
    """Whether the run has `network: local`, whatever the files say."""
    orchestration: dict[str, Any] = field(default_factory=dict)
    """Settings below `orchestration`, by dotted keys; they override those in files."""
    caps: Amount | None = None
    """The caps of the run, in place of those of the files."""
    supervised: bool | None = None
    """Whether a person approves the result of every stage; None: as the files say."""
    exit_after: str | None = None
    """The id of the node after which the run ends."""
    rounds: int | None = None
    """Of all approvals."""
    iterate: bool | None = None
    """Whether a stage is repeated after a rejection with a text."""
    max_runtime: float | None = None
    """The runtime limit of the pipeline, in seconds."""
    executors: tuple[str, ...] = ()
    """The ids of the stages that the program runs itself."""
    delivery: DeliveryMode | None = None
    """How the change is delivered; None: as the files say."""


OnRuntime = Literal["ask", "fail"]


class Guardrails(Struct, frozen=True, omit_defaults=True):
    max_runtime_seconds: float | None = None
    on_timeout: OnRuntime = "ask"


PASS, FAIL, REJECT = "pass", "fail", "reject"
VERDICTS = (PASS, FAIL, REJECT)
"""The verdicts that every stage may have."""

RouteAction = Literal["go", "ask", "fail", "end"]
END = "end"
ROUTE_ACTIONS = ("ask", "fail", END)
"""What a route can name instead of a node."""


class Route(Struct, frozen=True, omit_defaults=True):
    """What follows a verdict."""

    verdict: str
    action: RouteAction
    to: str = ""
    """With `go`: the id of a node of the same pipeline."""


class Limits(Struct, frozen=True, omit_defaults=True):
    """When a person is asked: instead of going back to an earlier node, and instead of spending more."""

    cycles: int | None = None
    no_progress: int | None = None
    cluster: int | None = None
    cost_usd: float | None = None
    tokens: int | None = None

    @property
    def caps(self) -> Amount:
        """What may be spent, by all visits of the node together."""
        return Amount(self.cost_usd, self.tokens)


RequestRule = Literal["required", "optional"]
NetworkRule = Literal["local"]
NETWORK = "AGENTFORGE_NETWORK"
"""The variable that says `local` to the programs of such a run, and to the engines that they start."""


class AppliedSetting(Struct, frozen=True):
    """A setting that changed the plan."""

    key: str
    place: str
    """Its file, with line and column."""


class PipelineInfo(Struct, frozen=True, omit_defaults=True):
    name: str
    overrides: Overrides
    commands: dict[str, str]
    description: str | None = None
    version: str | None = None
    """What a template says that it is."""
    inputs: tuple[str, ...] | None = None
    guardrails: Guardrails | None = None
    """Limits of the whole run."""
    views: tuple[str, ...] = ()
    """Additional files to keep up to date, outside the run directory: `escalations`, `controller`."""
    limits: Limits | None = None
    """Of cycles: for nodes that have none of their own. Of spending: for the pipeline as a whole."""
    daily_usd: float | None = None
    """What all runs of the user may spend in a day."""
    warn_usd: float | None = None
    """When the run has spent this, its user is told."""
    hooks: tuple[Hook, ...] = ()
    """In the order in which they are called."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Why hooks of the definition are not called, by their ids; also those of nested pipelines."""
    notify: tuple[Notification, ...] = ()
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the definition or in an option: the plan has references to them."""
    request: RequestRule | None = None
    """Whether a run needs a user request, or may have one; None: it takes none."""
    network: NetworkRule | None = None
    """`local`: only servers on this machine are called; None: any."""
    supervision: "Approval | None" = None
    """How results are approved in a supervised run, if the pipeline says so."""
    require: tuple[str, ...] = ()
    """The ids of the nodes that must be visited before the pipeline ends."""

    settings: tuple[AppliedSetting, ...] = ()
    """Those of the user's and the project's files."""

    @property
    def has_escalations(self) -> bool:
        return "escalations" in self.views

    @property
    def has_controller_view(self) -> bool:
        return "controller" in self.views


PYTHON = "python"
"""The provider of stages that a Python class runs; its settings name the class."""
OF_PROGRAM = "executor"
"""The provider of stages that the calling program runs; its settings name the stage."""


class ProviderChoice(Struct, frozen=True, omit_defaults=True):
    type: str
    model: str
    config: dict[str, Any] = field(default_factory=dict)
    """Passed to the provider unchanged: argv of `command`, the cassette of `replay`."""
    schema_path: str | None = None
    """The file that the schema in `config` was read from; relative to the project if inside it."""
    bounds: tuple[Unit, ...] = ()
    """What the provider keeps to by itself if it is given a budget; known when the run is started."""


SandboxType = Literal["none", "bwrap", "docker", "auto"]
SANDBOXES: tuple[SandboxType, ...] = get_args(SandboxType)


class SandboxChoice(Struct, frozen=True, omit_defaults=True):
    """The sandbox of a stage's agents."""

    type: SandboxType = "none"
    """`auto` only until the machine is known."""
    network: bool = True
    image: str | None = None
    """For `docker`."""
    writable: tuple[str, ...] = ()
    """Additional paths that agents may write to; relative to the workspace."""
    hidden: tuple[str, ...] = ()
    """Additional paths that are hidden from agents."""
    resolved: tuple[tuple[str, str], ...] = ()
    """Where those led that existed when the plan was compiled; relative to the workspace if inside it."""
    auto: bool = False
    """Whether the type was chosen for the machine where the run was started."""


OnLimit = Literal["wait", "next", "fail"]


class LimitPolicy(Struct, frozen=True):
    """What to do when a quota or rate limit is hit."""

    do: OnLimit = "next"
    """`next`: use the next provider of the chain that isn't at its limit, else wait."""
    initial_delay: float = 60.0
    """Used if the provider doesn't report a reset time; doubles each time."""
    max_delay: float = 900.0
    max_wait: float = 86_400.0
    """If the wait would be longer, a person is asked instead."""


OnTimeout = Literal["wait", "approve", "abort"]


class Approval(Struct, frozen=True, omit_defaults=True):
    """When a stage has ended, someone approves its result or sends it back."""

    message: str | None = None
    """The question; there is a default."""
    by: Answerer = "person"
    """`agent`: an agent that isn't part of the run may answer, too."""
    timeout: float | None = None
    on_timeout: OnTimeout = "wait"
    rounds: int = 3
    """How often the result is shown; after a rejection in the last round, the run escalates."""
    feedback: bool = True
    """Whether a rejection with a text repeats the stage; if not, every rejection ends the run."""


OnEscalation = Literal["ask", "fail", "skip"]
Semantics = Literal["at_least_once", "at_most_once"]


class Fixed(Struct, frozen=True, tag="fixed", tag_field="type", omit_defaults=True):
    """Ends after `max` iterations, or earlier if the agent requests stop."""

    max: int
    iterations: int | None = None
    until_pass: bool = False
    """Whether it also ends after each iteration, to continue only if its verdict is `fail`."""


class Judgment(Struct, frozen=True, tag="judgment", tag_field="type", omit_defaults=True):
    """Ends after `consensus` consecutive stop decisions of an external judge."""

    max: int
    min_iterations: int | None = None
    consensus: int | None = None
    iterations: int | None = None

    @property
    def judged_from(self) -> int:
        return 1 if self.min_iterations is None else self.min_iterations

    @property
    def required_stops(self) -> int:
        return 2 if self.consensus is None else self.consensus


class Queue(Struct, frozen=True, tag="queue", tag_field="type", omit_defaults=True):
    """Ends when the queue of tasks for this session is empty."""

    max: int
    check_before: bool = False
    """Also check the queue before the first iteration."""
    command: str | None = None
    iterations: int | None = None


class Items(
    Struct, frozen=True, tag="items", tag_field="type", omit_defaults=True, rename={"source": "from"}
):
    """One iteration for each element of a list in an earlier artifact; at most `max` elements."""

    max: int
    source: str = ""
    """As written: `NODE.field`, or `initial.field` for the artifact that the run was started with."""
    criteria: str | None = None
    """The field of an element with the criteria that the engine verifies."""
    iterations: int | None = None

    @property
    def field(self) -> str:
        """Of the artifact; the id of a node may contain dots, the name of a field can't."""
        return self.source.rpartition(".")[2]


Termination = Fixed | Judgment | Queue | Items


RetryFor = Literal["transient", "any"]
OnExhausted = Literal["fail", "ask"]


class RetryPolicy(Struct, frozen=True):
    max_attempts: int = 2
    initial_delay: float = 2.0
    multiplier: float = 2.0
    max_delay: float = 30.0
    stage: int = 0
    """Further tries of a failed stage."""
    retried: RetryFor = "transient"
    """Which failures `max_attempts` is for."""
    exhausted: OnExhausted = "fail"
    """What follows a failure without another try: the stage fails, or a person is asked."""


class FromStage(Struct, frozen=True):
    """The outputs of an earlier stage."""

    id: str
    path: str
    select: Select = "latest"
    provider: str | None = None
    """The branch, for a stage of the same block."""


class FromParallel(Struct, frozen=True):
    """The outputs of a stage in an earlier parallel block."""

    stage: str
    block: str
    path: str
    """Path of the block."""
    providers: tuple[str, ...]
    select: Select = "latest"


class ArtifactSource(Struct, frozen=True, omit_defaults=True):
    """A stage whose artifact is used."""

    path: str
    """Empty: the artifact that the run was started with."""
    provider: str | None = None
    """The branch, for a stage of the same block."""


class TokenBudget(Struct, frozen=True, omit_defaults=True):
    """How many tokens an iteration may be given."""

    total: int | None = None
    """None: nothing is cut."""
    reserve: float = 10.0
    """Percent of the total that stay free."""
    share: float = 100.0
    """Percent of the rest that are for one stage."""

    @property
    def limit(self) -> int | None:
        if self.total is None:
            return None
        return int(self.total * (100 - self.reserve) / 100 * self.share / 100)


class InputSources(Struct, frozen=True, omit_defaults=True):
    from_stage: tuple[FromStage, ...] = ()
    from_parallel: tuple[FromParallel, ...] = ()
    parallel_list: bool = False
    """Whether `from_parallel` was written as a list, and is therefore a list in context.json."""
    artifact: tuple[str, ...] = ()
    """The fields that the stage needs of earlier artifacts."""
    items: ArtifactSource | None = None
    """Whose artifact has the list of a stage over items."""


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
    """The file that `prompt` was read from."""
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
    """Fallback providers, in order."""
    on_limit: LimitPolicy | None = None
    semantics: Semantics = "at_least_once"
    """`at_most_once`: a person decides whether a failed attempt is retried."""
    sandbox: SandboxChoice | None = None
    judge: ProviderChoice | None = None
    """Its judge, if not that of the plan."""
    result_instructions: bool = True
    """Whether a prompt that doesn't ask for the result is extended."""
    approve: Approval | None = None
    checkpoint: str | None = None
    """The name of the checkpoint that is asked once, before this node."""
    checks: tuple[Check, ...] = ()
    verdicts: tuple[str, ...] = ()
    """Verdicts that the stage may have beside `pass`, `fail` and `reject`."""
    routes: tuple[Route, ...] = ()
    limits: Limits | None = None
    max_iteration_cost_usd: float | None = None
    """What each attempt at an iteration, and each call of its judge, may spend."""
    max_iteration_tokens: int | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    """Why checks of the definition are not run, by their names."""
    artifact: ArtifactRule | None = None
    """None: its iterations leave none."""
    on_escalation: OnEscalation = "ask"
    """What follows a question of its agent: a person is asked, or the stage fails or is skipped."""
    escalation_timeout: float | None = None
    """How many seconds a program that handles its questions waits for an answer; None: the program says."""
    context_strategy: Strategy | None = None
    """What `${BRIEFING}` has; None: nothing."""
    tokens: TokenBudget | None = None
    deliver: DeliverRule | None = None
    """Set on a stage that the engine performs: no agent runs in it."""
    freeze: tuple[str, ...] = ()
    """The fields of its artifact with the paths of files that stay as they are once it has passed."""
    rollback: bool = False
    """Whether what its attempts changed is undone if its verdict isn't `pass`."""

    @property
    def keeps_trees(self) -> bool:
        """Whether the files at the start of its visits have to be known."""
        return bool(self.freeze or self.rollback)

    @property
    def per_attempt(self) -> Amount:
        return Amount(self.max_iteration_cost_usd, self.max_iteration_tokens)

    @property
    def allowed_verdicts(self) -> tuple[str, ...]:
        return (*VERDICTS, *(word for word in self.verdicts if word not in VERDICTS))

    @property
    def expects_verdict(self) -> bool:
        """Whether its end depends on a verdict."""
        decides = self.checks or self.verdicts or self.routes or self.freeze or self.rollback
        return bool(decides or isinstance(self.termination, Items))

    @property
    def stated(self) -> tuple[ResultField, ...]:
        """What the artifact states in place of the result."""
        return self.artifact.result if self.artifact else ()

    @property
    def asked_verdicts(self) -> tuple[str, ...]:
        """Those that agents are told that their result may have."""
        return self.allowed_verdicts if self.expects_verdict and "verdict" not in self.stated else ()

    @property
    def own_commands(self) -> dict[str, str]:
        """What its tasks run beside its agents, also in a replay, by what people are told that it is. The
        command of a queue is not among them: a replay plays its answers."""
        return {f"check {check.name}": check.run for check in self.checks if check.run}

    @property
    def criteria(self) -> str | None:
        return self.termination.criteria if isinstance(self.termination, Items) else None

    def check(self, name: str) -> Check | None:
        return next((check for check in self.checks if check.name == name), None)

    @property
    def scoped(self) -> Check | None:
        """The check whose baseline records the files when a visit begins."""
        return next((check for check in self.checks if check.scope), None)

    def route(self, verdict: str) -> Route | None:
        return next((route for route in self.routes if route.verdict == verdict), None)

    @property
    def label(self) -> str:
        """The stage's name for people and events."""
        return self.name or self.id

    @property
    def chain(self) -> tuple[ProviderChoice, ...]:
        return () if self.deliver else (self.provider, *self.fallbacks)

    def chosen(self, choice: int) -> ProviderChoice:
        """A provider of the chain; the first if the index comes from an older, longer chain."""
        return self.fallbacks[choice - 1] if 0 < choice <= len(self.fallbacks) else self.provider


class Branch(Struct, frozen=True):
    """One provider's part of a parallel block: the block's stages with its model and inputs."""

    provider: str
    stages: tuple[StageNode, ...]


class ParallelNode(Struct, frozen=True, tag="parallel", tag_field="kind", omit_defaults=True):
    path: str
    id: str
    providers: tuple[Any, ...]
    """As written: names, or mappings with a model and inputs."""
    stages: tuple[dict[str, Any], ...]
    """As written and resolved, without provider-specific values."""
    inputs: dict[str, Any]
    branches: tuple[Branch, ...]
    description: str | None = None
    failure_mode: str | None = None
    checkpoint: str | None = None
    limits: Limits | None = None
    """Only of spending, by all branches together."""


class NestedNode(Struct, frozen=True, tag="pipeline", tag_field="kind", omit_defaults=True):
    """A pipeline inside a pipeline."""

    path: str
    id: str
    runs: int
    inputs: dict[str, Any]
    plan: "Plan"
    ref: str
    description: str | None = None
    checkpoint: str | None = None
    limits: Limits | None = None
    """Only of spending."""


Node = StageNode | ParallelNode | NestedNode


# Three names of a node: its path is its position (`1.0.2`), and says where it is in this plan; its id is what
# people and other nodes call it, and by it a recompiled plan recognises it; its folder has both. Events carry
# paths.
#
# What is derived from the nodes is kept on the plan (`dict=True`), as `decide` asks for it in every step, and
# a plan never changes: a recompiled one is another object.


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
    """The judge of judgment stages that have none of their own."""
    judge_prompt: str = ""
    """The template of its prompt; empty if no stage uses the judge."""
    descriptions: dict[str, str] = field(default_factory=dict)
    """The texts of the project's descriptions of its providers, by name."""
    version: int = PLAN_VERSION

    def returns_items(self, node: StageNode) -> bool:
        """Whether a result of the stage may send items of another one back."""
        if "items" in node.stated:
            return False
        targets = {route.to for route in node.routes if route.to != node.id}
        return any(one.id in targets and isinstance(one.termination, Items) for one in self.stages)

    @cached_property
    def steps(self) -> "tuple[Step, ...]":
        """Every stage and block of the plan in file order, including those of nested pipelines."""
        return tuple(_steps(self, "", ""))

    @cached_property
    def stages(self) -> tuple[StageNode, ...]:
        """Every stage of every branch, including those of nested pipelines."""
        return tuple(stage for step in self.steps for stage in step.stages)

    @cached_property
    def keeps_trees(self) -> bool:
        """Whether the files at the start of the run and of each visit have to be known."""
        return any(stage.keeps_trees for stage in self.stages)

    @cached_property
    def places(self) -> "dict[str, Step]":
        """The steps by path."""
        return {step.path: step for step in self.steps}

    @property
    def only_stage(self) -> StageNode:
        """The stage of a single-stage run."""
        node = self.nodes[0]
        assert isinstance(node, StageNode)
        return node

    @property
    def notify_sandbox(self) -> SandboxChoice | None:
        """For the commands of notifications: that of the last stage that has one. None: no stage has."""
        chosen = (stage.sandbox for stage in reversed(self.stages))
        return next((one for one in chosen if one and one.type != "none"), None)

    @cached_property
    def by_path(self) -> dict[str, "StageNode | ParallelNode"]:
        """Stages and blocks by the path that their events carry."""
        blocks = (step for step in self.steps if isinstance(step.node, ParallelNode))
        inner = {step.inner_path(stage): stage for step in blocks for stage in step.stages}
        return {step.path: step.node for step in self.steps} | inner

    def checkpoints(self, path: str) -> tuple[str, ...]:
        """The names of the checkpoints before a node: those of the pipelines around it first."""
        return self.places[path].checkpoints if path in self.places else ()

    @property
    def all_hooks(self) -> "tuple[Hook, ...]":
        """The hooks of the pipeline and of those nested in it."""
        nested = (node.plan.all_hooks for node in self.nodes if isinstance(node, NestedNode))
        return (*self.pipeline.hooks, *(hook for hooks in nested for hook in hooks))

    @cached_property
    def check_reports(self) -> frozenset[str]:
        """The paths of the reports that checks write."""
        return frozenset(normpath(c.report) for stage in self.stages for c in stage.checks if c.report)

    @cached_property
    def program_hooks(self) -> tuple[str, ...]:
        """The ids of the hooks that are functions of the program that started the run."""
        return tuple(hook.id for hook in self.all_hooks if hook.action == "call")

    def hooks(self, point: HookPoint, path: str = "") -> tuple[Hook, ...]:
        """The hooks at a point of a stage or block, or of the run: those of files before those of the SDK,
        and those of outer pipelines before those of inner ones."""
        return self._hooks.get((path, point), ())

    @cached_property
    def _hooks(self) -> dict[tuple[str, HookPoint], tuple[Hook, ...]]:
        places = [("", "", self.pipeline.hooks)]
        for step in self.steps:
            places.append((step.path, step.node.id, step.hooks))
            if isinstance(step.node, ParallelNode) and step.node.branches:
                stages = step.node.branches[0].stages
                places += [(step.inner_path(stage), stage.id, step.hooks) for stage in stages]
        found: dict[tuple[str, HookPoint], list[Hook]] = {}
        for path, id, hooks in places:
            for hook in sorted(hooks, key=lambda hook: hook.action == "call"):
                if hook.stage is None or hook.stage == id:
                    found.setdefault((path, hook.point), []).append(hook)
        return {key: tuple(hooks) for key, hooks in found.items()}

    def stage(self, path: str, branch: str | None = None) -> StageNode | None:
        """The stage at that path (in a block: of that provider's branch), or None."""
        return self.placed.get((path, branch))

    @cached_property
    def placed(self) -> dict[tuple[str, str | None], StageNode]:
        """The stages by their paths, those of a block also by the provider of the branch."""
        found: dict[tuple[str, str | None], StageNode] = {}
        for step in self.steps:
            if isinstance(step.node, StageNode):
                found[step.path, None] = step.node
                continue
            for branch in step.node.branches:
                found |= {(step.inner_path(stage), branch.provider): stage for stage in branch.stages}
        return found

    @cached_property
    def caps(self) -> "tuple[CapPlace, ...]":
        """Where spending is bounded: the run, and nodes."""
        return tuple(place for place in _cap_places(self) if any(place.caps.known))

    def with_caps(self, caps: Amount) -> "Plan":
        """The plan with other caps on the run as a whole, in the units that they have; a recompilation keeps
        them."""
        info = self.pipeline
        limits, overrides = info.limits or Limits(), info.overrides
        both = caps.or_else(limits.caps)
        limits = replace(limits, cost_usd=both.cost_usd, tokens=both.tokens)
        overrides = replace(overrides, caps=caps.or_else(overrides.caps))
        return replace(self, pipeline=replace(info, limits=limits, overrides=overrides))

    def capped_units(self, path: str) -> set[Unit]:
        """What is bounded for the stage at that path."""
        units = {unit for place in self.caps if place.has(path) for unit, _ in place.caps.known}
        return units if self.pipeline.daily_usd is None else {*units, "cost_usd"}

    @cached_property
    def baselines(self) -> dict[str, tuple[StageNode, Check]]:
        """Its checks by their baselines, each with the first stage that has it."""
        found: dict[str, tuple[StageNode, Check]] = {}
        for stage in self.stages:
            for check in stage.checks:
                found.setdefault(check.baseline, (stage, check))
        return found

    @cached_property
    def delivers(self) -> bool:
        """Whether a stage delivers the change, so that the files at the start have to be known."""
        return any(stage.deliver for stage in self.stages)

    @property
    def is_local(self) -> bool:
        """Whether only servers on this machine are called."""
        return self.pipeline.network == "local"

    def providers(self) -> frozenset[str]:
        """The providers needed to continue this run."""
        return frozenset(choice.type for stage in self.stages for choice in stage.chain)

    def judge_of(self, stage: StageNode) -> ProviderChoice:
        return stage.judge or self.judge

    def judges(self) -> frozenset[str]:
        """The providers that judge its stages; empty if none is judged."""
        judged = (stage for stage in self.stages if isinstance(stage.termination, Judgment))
        return frozenset(self.judge_of(stage).type for stage in judged)

    def with_stages(self, change: Callable[[StageNode], StageNode]) -> "Plan":
        """The plan with each of its stages changed, including those of blocks and nested pipelines."""
        return replace(self, nodes=tuple(_with_stages(node, change) for node in self.nodes))


def _with_stages(node: Node, change: Callable[[StageNode], StageNode]) -> Node:
    match node:
        case StageNode():
            return change(node)
        case NestedNode():
            return replace(node, plan=node.plan.with_stages(change))
        case ParallelNode():  # exhaustive
            branches = (
                replace(branch, stages=tuple(change(stage) for stage in branch.stages))
                for branch in node.branches
            )
            return replace(node, branches=tuple(branches))


class Step(Struct, frozen=True):
    """A stage or block of the plan, with its path and directory."""

    node: StageNode | ParallelNode
    path: str
    dir: str
    """Directory of its first visit, relative to the run directory."""
    checkpoints: tuple[str, ...] = ()
    """Asked before it: those of the pipelines around it first."""
    hooks: tuple[Hook, ...] = ()
    """Those that may apply to it, of outer pipelines first."""

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
        """The stages of one provider; empty if this isn't a block or the provider isn't in it."""
        branches = self.node.branches if isinstance(self.node, ParallelNode) else ()
        return next((branch.stages for branch in branches if branch.provider == provider), ())


class CapPlace(Struct, frozen=True):
    """A part of the run with caps on what it may spend."""

    path: str
    """Empty: the whole run."""
    name: str
    """For people."""
    caps: Amount

    def has(self, path: str) -> bool:
        """Whether a stage at that path is in this part."""
        return not self.path or path == self.path or path.startswith(f"{self.path}.")


def _cap_places(
    plan: Plan, path: str = "", name: str = "the run", of_node: Limits | None = None
) -> "Iterator[CapPlace]":
    """`of_node`: of the node that runs the plan."""
    own = (limits.caps for limits in (plan.pipeline.limits, of_node) if limits)
    yield CapPlace(path, name, reduce(tightest_of, own, Amount()))
    within = f"{path}." if path else ""
    for node in plan.nodes:
        here = f"{within}{node.path}"
        if isinstance(node, NestedNode):
            yield from _cap_places(node.plan, here, f"pipeline {node.id!r}", node.limits)
            continue
        inner = node.branches[0].stages if isinstance(node, ParallelNode) and node.branches else ()
        kind = "stage" if isinstance(node, StageNode) else "block"
        places = [(here, f"{kind} {node.id!r}", node.limits)]
        places += [(f"{within}{stage.path}", f"stage {stage.id!r}", stage.limits) for stage in inner]
        yield from (CapPlace(at, what, limits.caps) for at, what, limits in places if limits)


def _steps(
    plan: Plan, path: str, folder: str, checkpoints: tuple[str, ...] = (), hooks: tuple[Hook, ...] = ()
) -> Iterator[Step]:
    """`checkpoints` and `hooks` are those of the pipelines around the plan."""
    hooks = (*hooks, *plan.pipeline.hooks)
    for index, node in enumerate(plan.nodes):
        names = (*checkpoints, node.checkpoint) if node.checkpoint else checkpoints
        here = f"{folder}{DIR_NAMES[type(node)]}-{index:02d}-{node.id}"
        if isinstance(node, NestedNode):
            yield from _steps(node.plan, f"{path}{node.path}.", f"{here}/", names, hooks)
        else:
            yield Step(node, f"{path}{node.path}", here, names, hooks)


def visit_dir(folder: str, run: int) -> str:
    """The folder of a visit: the first uses the node's folder itself, later ones `run-002` and up inside the
    outermost folder."""
    if run == 1:
        return folder
    outermost, slash, rest = folder.partition("/")
    return f"{outermost}/run-{run:03d}{slash}{rest}"


DIR_NAMES: dict[type, str] = {StageNode: "stage", ParallelNode: "parallel", NestedNode: "pipeline"}
