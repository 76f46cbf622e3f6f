"""The state of a run: the fold of its events. No collection here grows with the iterations."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Self

from msgspec import Struct, field
from msgspec.structs import replace

from agentforge.model.artifact import ItemAt, PlannedItem
from agentforge.model.changes import LeftInGit
from agentforge.model.check import (
    BASELINE,
    Baseline,
    CheckCounts,
    CheckProblem,
    CheckStatus,
    FilesBefore,
    TestsRan,
)
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.delivery import DeliveredWork, DeliveryBase, DeliveryState
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.frozen import FilesSeen, FrozenFiles
from agentforge.model.hook import CALL_POINTS, HookOutcome, HookPoint
from agentforge.model.plan import Mode
from agentforge.model.request import AnsweredQuestion, Feedback, Note, Request, UserRequest
from agentforge.model.result import AgentQuestion, Decision, Usage
from agentforge.model.spending import Amount, DailyAnswer, Spending
from agentforge.model.status import IterationStatus, NodeStatus, RunStatus, TaskStatus

# Theory of operation
#
# The state is what `decide` needs to know of the past. Each engine, and each command that shows a run, folds
# it from the log or takes it from state.json, and a new one is made for each event. So every collection is
# bounded, by the plan or by a MAX_…: a run of any length costs the same for each event. What people look at
# beyond that is folded by `views`.
#
# What holds for one iteration only has the number of that iteration (`judged`, `queue_checked`, `iteration`
# of a check) instead of a flag: it is out of date once the next iteration is completed, and no event can
# forget to reset it.

AT_MOST_ONCE = "at_most_once"
"""The pause reason of a run that asks whether to retry an attempt."""
LOST = "_lost"
"""Why a run asks about a kind of task that was lost too often, after the name of that kind."""
STUCK = "recoveries_without_progress"
"""Why a run asks that was recovered again and again without any outcome in between."""
MACHINE_SHUTDOWN = "machine_shutdown"
"""The pause reason of a run that was stopped because its machine was shut down: recovery continues it."""


class RunSettings(Struct, frozen=True, omit_defaults=True):
    """Settings taken from the environment at the start, so that a resume uses the same."""

    mock: bool = False
    delay: float | None = None
    """Overrides every stage's delay, as in mock mode."""
    plateau_test: bool = False
    """No judge: the agents' own `plateau_suspected` signal is used instead."""
    record: bool = False
    """Whether the agents' work is recorded to a cassette."""
    replay: float | None = None
    """Replay a cassette at this speed instead of running agents."""
    replay_commands: bool = False
    """Whether the replay runs the commands of the cassette."""
    approve: bool = False
    """Whether approvals are given without asking; checkpoints are still asked."""


MAX_LOST_IN_A_ROW = 3


class TaskState(Struct, frozen=True):
    """A started task of any kind: its latest try."""

    number: int
    status: TaskStatus
    started_at: datetime
    lost: int = 0
    """Consecutive lost attempts, including this one."""
    failure: Failure | None = None
    ended_at: datetime | None = None
    started: bool = True
    """False if it ended before anything ran."""
    excused: bool = False
    """Whether a person allowed another attempt despite this one's outcome."""
    about: str = ""
    """Tells it from other tasks of its kind: the check."""
    timeout: float | None = None
    files: FilesBefore = FilesBefore()
    """Of a check: the files that it was going to see. Of what restores files: those before."""
    paths: tuple[str, ...] = ()
    """What is going to be restored."""
    reserved: Amount | None = None
    """Of an agent or a judge: what it may spend. It is open while the task is in flight."""
    spent_nothing: bool = False
    """Of one that was stopped at that: whether it was too little to begin with."""

    @property
    def in_flight(self) -> bool:
        return self.status in IN_FLIGHT

    @property
    def is_given_up(self) -> bool:
        """Whether it was lost so often that a person decides about another attempt."""
        return self.lost >= MAX_LOST_IN_A_ROW and not self.excused

    @property
    def is_at_cap(self) -> bool:
        """Whether it was stopped at what it could spend: whether another one starts depends on the caps."""
        return bool(self.reserved and self.failure and self.failure.kind is FailureKind.CAP_REACHED)

    def as_lost(self, *, started: bool = True) -> Self:
        """One that was stopped on request doesn't count as lost."""
        if self.status is TaskStatus.ENDING:
            return replace(self, status=TaskStatus.CANCELLED, started=started)
        return replace(self, status=TaskStatus.LOST, lost=self.lost + 1, started=started)


class AttemptState(TaskState, frozen=True, kw_only=True):
    """An agent's attempt, with the data that the next one depends on."""

    idle_timeout: float | None = None
    due_at: datetime | None = None
    """When the retry is due."""
    choice: int = 0
    """Index into the stage's provider chain."""
    resume: str | None = None
    """The agent session that it resumes."""
    before: Usage | None = None
    """Usage of that session before this attempt."""
    once: bool = False
    """Whether a retry needs a person's approval."""

    @property
    def ended_without_result(self) -> bool:
        """Whether it ended without a result and may have done part of its work."""
        return self.started and self.status in _WITHOUT_RESULT


IN_FLIGHT = frozenset({TaskStatus.RUNNING, TaskStatus.ENDING})
_WITHOUT_RESULT = frozenset({TaskStatus.FAILED, TaskStatus.LOST, TaskStatus.CANCELLED})


class HookCall(TaskState, frozen=True, kw_only=True):
    """The call of a hook: its latest try, and what it answered."""

    hook: str
    delivery: str
    due_at: datetime | None = None
    """When the next try is due."""
    failures: int = 0
    message: str = ""
    """Why the latest try failed."""
    timed_out: bool = False
    is_retryable: bool = False
    effect: bool = False
    """Whether an effect was intended whose outcome isn't recorded yet."""
    outcome: HookOutcome = "continue"
    reason: str = ""
    answer: str = ""
    text: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether it answered, and nothing more follows from that."""
        return (
            self.status is TaskStatus.SUCCEEDED
            and not self.effect
            and self.outcome in ("continue", "modify_context")
        )


OUTDATED = -1
"""In place of an iteration: the check is to run again, and only its number still counts."""


class CheckRecord(Struct, frozen=True):
    """The latest outcome of a check in a visit of a stage."""

    check: str
    """Its name, or what identifies its baseline."""
    iteration: int
    """The completed iterations when it ran."""
    status: CheckStatus
    reason: str = ""
    counts: CheckCounts = CheckCounts()
    signatures: tuple[str, ...] = ()
    tree: str | None = None
    feedback: str = ""
    changed: tuple[str, ...] = ()
    """Paths that changed while it ran: the outcome is void."""
    voids: int = 0
    """Consecutive void outcomes at this iteration, including this one."""
    number: int = 1
    timeout: float | None = None
    """What it was given: its own time limit, or less at the end of the run's."""
    problem: CheckProblem | None = None
    tests: TestsRan | None = None
    repeated: int = 0
    """In how many iterations just before it failed in the same way on the same files."""

    @property
    def name(self) -> str:
        return self.check.partition(BASELINE)[0]

    @property
    def fails(self) -> bool:
        return self.status in ("fail", "timeout")


class Verdict(Struct, frozen=True):
    """What a stage concluded."""

    word: str
    reason: str = ""
    ended: str = ""
    """Why the stage is over."""
    accepted_by: str = ""
    """Who accepted the result despite it."""
    accept_reason: str = ""
    is_checked: bool = False
    """Whether failing checks led to it, not the agent's own conclusion or failed items."""
    resumed: bool = False
    """Whether a person resumed the run since."""
    items: tuple[str, ...] = ()
    """The items that it is about."""
    skipped_by: str = ""
    """Who skipped the stage, so that it has this verdict without having been run."""


NO_VERDICT = Verdict("")


class Waiver(Struct, frozen=True, omit_defaults=True):
    """A check of the run that doesn't count, or a stage that isn't run, because a person said so."""

    check: str
    """Empty: it is about a stage."""
    reason: str
    by: str
    stage: str = ""
    """The id of the stage; that of every pipeline of the run that has one."""

    @property
    def what(self) -> str:
        return f"stage {self.stage}" if self.stage else f"check {self.check}"


class CycleCount(Struct, frozen=True):
    """How often a route back to an earlier node was taken."""

    taken: int
    limit: int
    """The limit at that time, with what a person granted."""


class Cluster(Struct, frozen=True):
    """The visits that ended with the same failure, of whatever stages."""

    signature: str
    stage: str
    """The first stage that ended with it."""
    visits: int
    latest: tuple[str, int]
    """The latest stage and visit; a visit that ends again after a resume counts once."""


class Failing(Struct, frozen=True):
    """How a stage failed in its latest visit, and in how many in a row."""

    tree: str
    signatures: tuple[str, ...]
    """Sorted."""
    visits: int
    run: int
    """The latest visit."""


MAX_CLUSTERS = 100

HookHost = tuple[str, ...]


FAILED = "failed: "
"""How the subject of the hooks begins that are called because a stage failed."""


class HookProgress(Struct, frozen=True):
    """The hooks at one point of a run, a block, a branch or a stage: which have answered, and which is being
    called."""

    point: HookPoint
    at: Cursor | None
    subject: str = ""
    """The request's id; the number of the event that resumed the run; why the stage is over, or which failure
    it has (`FAILED`)."""
    done: tuple[str, ...] = ()
    """Ids of the hooks that answered or were skipped; at most as many as the plan has."""
    call: HookCall | None = None

    @property
    def host(self) -> HookHost:
        return hook_host(self.point, self.at, self.subject)

    def is_at(self, point: HookPoint, iteration: int) -> bool:
        return self.point == point and (self.at.iteration if self.at else 0) == iteration

    def without_call(self, hook: str) -> "HookProgress":
        """The hook is done with."""
        return replace(self, done=(*self.done, hook), call=None)


def hook_host(point: HookPoint, at: Cursor | None, subject: str = "") -> HookHost:
    """What is at a hook point: it is at one point at a time."""
    if point in CALL_POINTS or at is None:
        return (point, subject)
    # A stage that failed may continue, at the point where it was.
    failed = (FAILED,) if subject.startswith(FAILED) else ()
    return (at.node_path, str(at.node_run), at.provider or "", *failed)


class LatestResume(Struct, frozen=True):
    """The latest resume by a person, for the hooks that are called then."""

    seq: int
    text: str
    by: str


class AgentSession(Struct, frozen=True):
    """An unfinished agent session that may be resumed."""

    id: str
    choice: int
    continued: int = 0
    used: Usage | None = None


class Unavailable(Struct, frozen=True):
    """A provider of the stage's chain that is currently unavailable."""

    choice: int
    until: datetime | None
    """None: until a person resumes the run."""
    message: str = ""
    limited: bool = False
    """Whether it hit a quota or rate limit, which waiting resolves."""


class IterationState(Struct, frozen=True):
    number: int
    status: IterationStatus
    started_at: datetime
    prompt_sha256: str = ""
    """Hash of the rendered prompt, to detect changes to its file."""
    attempt: AttemptState | None = None
    attempts: int = 0
    """Attempt numbers used so far; never reused, so that each attempt has its own claim."""
    failures: tuple[FailureKind, ...] = ()
    """Failures that count against the retry policy, which bounds their number."""
    agent: AgentSession | None = None
    limited: int = 0
    """How often a limit was hit, over all providers of the chain."""
    limited_since: datetime | None = None
    gave_way: int = 0
    """How often a failed provider was replaced by the next one."""
    item: str = ""
    """The item that it is about."""
    invalid: str = ""
    """What was wrong with the last artifact that an attempt left; the next attempt is told."""


class LedgerReply(Struct, frozen=True):
    """The latest answer about the cap of the day."""

    key: str
    run_usd: float
    answer: DailyAnswer
    at: datetime


class StageState(Struct, frozen=True, tag="stage"):
    """A stage in progress: a node of the run, or a stage of a branch."""

    path: str
    run: int
    folder: str = ""
    """The recorded folder of this visit; empty in a branch, where it follows from the branch's folder."""
    started_at: datetime | None = None
    """When the visit began; None in a damaged log."""
    completed: int = 0
    iteration: IterationState | None = None
    last_decision: Decision | None = None
    tree: str | None = None
    """The files after the latest iteration, if they are known."""
    last_completed_at: datetime | None = None
    delay_due: datetime | None = None
    delay_over: bool = False
    failure: Failure | None = None
    """Why the next iteration couldn't be prepared, or None."""
    calls: dict[str, TaskState] = field(default_factory=dict)
    """By kind: the latest task between two iterations, until its outcome is used. At most one of a kind, as a
    stage does one thing at a time."""
    judge_tries: int = 0
    """How often the judge failed on that iteration."""
    judged: int = 0
    """The latest iteration for which the judge was heard, failed or was skipped."""
    stops: int = 0
    """Consecutive stop decisions of the judge."""
    plateaus: int = 0
    """Consecutive iterations that suspected a plateau."""
    judge_failures: int = 0
    """Consecutive iterations whose judge failed; after a few the judge is skipped."""
    judge_reason: str = ""
    queue_checked: int = -1
    """The number of completed iterations at the last queue check."""
    queue_left: int = 0
    unavailable: tuple[Unavailable, ...] = ()
    """Unavailable providers; at most the length of the chain."""
    stage_retries: int = 0
    """Further tries of the stage after a failure."""
    retry_due: datetime | None = None
    """When a stage whose check had no result is retried; within an iteration its attempt knows."""
    round: int = 1
    """How often its result was shown for approval, including this visit."""
    rounds_granted: int = 0
    """Rounds that a person granted beyond the approval's own."""
    approved: bool = False
    rejected: Feedback | None = None
    """A rejection of its result that hasn't led to another visit yet."""
    feedback: Feedback | None = None
    """What was said about the previous visit."""
    questions: tuple[AgentQuestion, ...] = ()
    """What the agent asked in its latest iteration."""
    asked: int = 0
    """How many iterations of this visit asked something new."""
    asks_granted: int = 0
    """Rounds of questions that a person granted beyond the limit."""
    answers: tuple[AnsweredQuestion, ...] = ()
    """The latest answers to the agent's questions; at most MAX_ANSWERS."""
    restart: "Restart | None" = None
    """A restart that was requested and is not done yet."""
    hook_restarts: int = 0
    """How often hooks have started the stage over."""
    checks: tuple[CheckRecord, ...] = ()
    """The latest outcome of each check and each baseline that ran in it; at most as many as the plan has."""
    claim: Verdict | None = None
    """The verdict in the latest result, or None."""
    verdict: Verdict | None = None
    """Recorded when the stage is over."""
    granted: int = 0
    """How many passes a person granted, from the one that is about to begin."""
    transition: "Transition | None" = None
    """Where a route leads, once that is recorded."""
    planned: bool = False
    """Whether the items of this visit are planned."""
    item: str = ""
    """The item of the latest iteration, until it is over."""
    item_tries: int = 0
    """How many iterations of this item failed its checks."""
    git_left: tuple[LeftInGit, ...] = ()
    """What confined programs left for git during this visit: the latest, at most MAX_LEFT."""
    ledger: LedgerReply | None = None
    delivery: DeliveryState | None = None
    """Of a stage that delivers."""
    began: FilesSeen | None = None
    """The files at the start of the visit, if the plan needs to know them."""
    verified: tuple[int, str] = (-1, "")
    """For what the frozen files were verified last: the number of completed iterations, and the check."""
    restored: tuple[str, ...] = ()
    """Frozen files that were restored since the latest iteration; at most MAX_TOLD."""
    froze: bool = False
    """Whether its files are frozen."""
    rolled_back: bool = False
    """Whether what it changed is undone, or a person said that it stays."""
    refused: tuple[str, ...] = ()
    """The paths because of which it was not undone, and why, until a person has answered."""

    @property
    def counted(self) -> int:
        """Completed iterations that count against the maximum: after one that asks, there is another with the
        answers."""
        return self.completed - self.asked

    @property
    def item_id(self) -> str:
        """The item that it works on; empty before the next one, and if it has no items."""
        return self.iteration.item if self.iteration else self.item

    @property
    def asked_before(self) -> int:
        """How many asked before the current iteration or, between two, before the latest one."""
        is_asking = self.iteration is None and self.last_decision is Decision.ASK
        return self.asked - is_asking

    @property
    def position(self) -> int:
        """The index of this stage in its branch."""
        return position_of(self.path)

    @property
    def is_skipped(self) -> bool:
        """Whether it has its verdict because a person skips it."""
        return self.verdict is not None and self.verdict.skipped_by != ""

    @property
    def reserved(self) -> Amount | None:
        """What the latest attempt at the iteration could spend."""
        return self.iteration.attempt.reserved if self.iteration and self.iteration.attempt else None

    @property
    def agent_in_flight(self) -> bool:
        """Whether its agent or its judge may be running."""
        return any(call.in_flight for kind, call in self.tasks if kind in ("agent", "judge"))

    @property
    def tasks(self) -> "Iterator[tuple[str, TaskState]]":
        """The latest tasks with an intent, by kind."""
        if self.iteration is not None and self.iteration.attempt is not None:
            yield "agent", self.iteration.attempt
        yield from self.calls.items()


class Transition(Struct, frozen=True):
    """Where the run goes because of a verdict."""

    next: Destination | None
    feedback: Feedback | None = None
    skipped: tuple[str, ...] = ()
    """The ids of the nodes that are passed over."""


class Restart(Struct, frozen=True):
    """Someone asked to start the stage over."""

    reason: str
    by: str


class Reentry(Struct, frozen=True):
    """What the next visit of a stage gets from the previous one."""

    round: int = 1
    rounds_granted: int = 0
    feedback: Feedback | None = None
    answers: tuple[AnsweredQuestion, ...] = ()
    hook_restarts: int = 0


MAX_ANSWERS = 64
BRANCH_END = 1_000_000
"""A position after the last stage of every branch."""


class StageRecord(Struct, frozen=True):
    """A completed node, or a completed stage of a branch."""

    name: str
    path: str
    iterations: int
    completed_at: datetime
    reason: str
    run: int = 1
    rounds: tuple[int, ...] = (1,)
    """The round of each enclosing pipeline."""
    judge_failures: int = 0
    """Consecutive failures of the judge, at the end of the stage."""
    verdict: str = ""
    accepted_by: str = ""
    """Who accepted the result despite its verdict."""
    asked: int = 0
    """How many of its iterations asked something."""

    @property
    def counted(self) -> int:
        """Iterations that count against the maximum."""
        return self.iterations - self.asked


class BranchState(Struct, frozen=True):
    """One provider's progress through a parallel block."""

    provider: str
    status: NodeStatus = NodeStatus.PENDING
    stage: StageState | None = None
    stages: tuple[StageRecord, ...] = ()
    failure: Failure | None = None
    started_at: datetime | None = None
    reentry: Reentry | None = None
    """Set while its next stage is one that it visits again."""
    jump: int | None = None
    """The position of its next stage, if a route leads there."""
    skipped: tuple[str, ...] = ()
    """The ids of the stages that a route passed over, and that were not visited since."""

    @property
    def next_stage(self) -> int:
        if self.jump is not None:
            return self.jump
        return position_of(self.stages[-1].path) + 1 if self.stages else 0

    @property
    def completed(self) -> int:
        """Completed iterations over all stages."""
        return sum(record.iterations for record in self.stages) + (self.stage.completed if self.stage else 0)

    @property
    def counted(self) -> int:
        """Those that count against the maximum."""
        return sum(record.counted for record in self.stages) + (self.stage.counted if self.stage else 0)


class BlockState(Struct, frozen=True, tag="block"):
    """A parallel block in progress; its branches belong to the same run."""

    path: str
    run: int
    folder: str = ""
    branches: tuple[BranchState, ...] = ()
    manifest: bool = False

    @property
    def completed(self) -> int:
        """Completed iterations over all branches."""
        return sum(branch.completed for branch in self.branches)

    @property
    def counted(self) -> int:
        """Those that count against the maximum."""
        return sum(branch.counted for branch in self.branches)

    def branch(self, provider: str) -> BranchState | None:
        return next((branch for branch in self.branches if branch.provider == provider), None)

    def resumed(self, stage_on_resume: "Callable[[StageState], StageState]") -> "BlockState":
        """Failed branches continue where they failed; completed ones stay completed."""
        return replace(self, branches=tuple(_resumed(branch, stage_on_resume) for branch in self.branches))


class Start(Struct, frozen=True, tag="start"):
    """No node was entered yet."""


class Between(Struct, frozen=True, tag="between"):
    """A node is complete and the next one hasn't been entered."""

    next: Destination | None
    """None at the end of the run."""
    reentry: Reentry | None = None
    """Set if the next node is the one that was left, visited again."""


Position = Start | Between | StageState | BlockState
"""The current position of a run."""


def position_of(path: str) -> int:
    """A node's index among its siblings; 0 if a damaged log has none."""
    last = path.rpartition(".")[2]
    return int(last) if last.isascii() and last.isdigit() else 0


def is_within(path: str, node: str) -> bool:
    """Whether a path is that of a node, or of a node inside it."""
    return path == node or path.startswith(f"{node}.")


class Stop(Struct, frozen=True):
    """A requested pause or cancellation."""

    cancel: bool
    reason: str
    now: bool
    due_at: datetime | None = None


MAX_NOTES_BYTES = 32 * 1024


def latest_notes(notes: tuple[Note, ...]) -> tuple[Note, ...]:
    """The latest notes that fit into the size limit; the oldest are dropped."""
    # Each is kept or dropped as a whole: a part of a note could say something else.
    room, kept = MAX_NOTES_BYTES, 0
    for note in reversed(notes):
        room -= len(note.text.encode("utf-8", "replace"))
        if room < 0:
            break
        kept += 1
    return notes[len(notes) - kept :]


class RefusedFile(Struct, frozen=True):
    """Something in the run directory that couldn't be used and was moved aside."""

    name: str
    reason: str
    moved_to: str


MAX_REFUSED = 16


class RunState(Struct, frozen=True):
    session: str
    run_id: str
    mode: Mode
    status: RunStatus
    started_at: datetime
    seq: int
    updated_at: datetime
    clock_from: datetime
    """When the runtime limit started to count: at the start or the last resume."""
    settings: RunSettings = field(default_factory=RunSettings)
    cursor: Cursor | None = None
    """Cursor of the latest event; inside a parallel block, that of the block."""
    user_request: UserRequest | None = None
    at: Position = Start()
    visits: dict[str, int] = field(default_factory=dict)
    """Number of visits by path; removed nodes are listed by key."""
    rounds: tuple[int, ...] = (1,)
    """The current round of each enclosing pipeline, outermost first."""
    stages: tuple[StageRecord, ...] = ()
    """Completed nodes: the latest visit of each, in order of completion."""
    skipped: dict[str, datetime] = field(default_factory=dict)
    """When a route passed over a node, a recompilation left it behind, or it was not run because a person
    skips it, by path; not of those that were run since."""
    spending: Spending = Spending()
    spent: dict[str, Spending] = field(default_factory=dict)
    """The part of each stage, by path; that of a stage of a block has all branches."""
    granted: dict[str, float] = field(default_factory=dict)
    """What people granted beyond caps, by the cap; at most as many as the plan has."""
    warned: bool = False
    """Whether the notice was given that the run has spent a certain amount."""
    stop: Stop | None = None
    requests: tuple[Request, ...] = ()
    """Open requests, and answered ones whose consequences aren't recorded yet."""
    waits: bool = False
    """Whether the run is stopped on its requests, so that an answer continues it."""
    controls: tuple[str, ...] = ()
    """Ids of the latest processed controls, so that none is processed twice."""
    refused: tuple[RefusedFile, ...] = ()
    """The latest files that were refused; at most MAX_REFUSED."""
    cleared: tuple[str, ...] = ()
    """The names of the checkpoints that were cleared; at most as many as the plan has."""
    runtime_granted: float | None = None
    """Seconds that a person granted, from `clock_from`, instead of the runtime limit."""
    accepted_damage: tuple[int, ...] = ()
    """Damaged log lines that a person chose to ignore."""
    recoveries: int = 0
    """Automatic recoveries since the last progress: an outcome or an answer that was recorded."""
    recoveries_excused: int = 0
    """How many of those recoveries a person has accepted."""
    paused_at: datetime | None = None
    pause_reason: str | None = None
    completed_at: datetime | None = None
    completion_reason: str | None = None
    failure: Failure | None = None
    notes: tuple[Note, ...] = ()
    """Notes that people added to the context; bounded in size."""
    waivers: tuple[Waiver, ...] = ()
    """At most one for each check and stage of the plan."""
    cycles: dict[str, CycleCount] = field(default_factory=dict)
    """The routes back to earlier nodes."""
    baselines: dict[str, Baseline] = field(default_factory=dict)
    """What checks found before the first agent; at most one for each check of the plan."""
    has_worked: bool = False
    """Whether an agent was started."""
    base: DeliveryBase | None = None
    """The files and the repository before that, if a stage delivers."""
    tree: str | None = None
    """The files that the latest iteration left, or those of the latest verdict after it; None: unknown."""
    delivered: DeliveredWork | None = None
    """What the latest stage that delivers delivered."""
    clusters: tuple[Cluster, ...] = ()
    """The latest failures, by signature; at most MAX_CLUSTERS."""
    failing: dict[str, Failing] = field(default_factory=dict)
    """Stages whose latest visit failed, by path."""
    hooks: tuple[HookProgress, ...] = ()
    """Where hooks are being called; at most one entry for each host."""
    hook_answers: int = 0
    """Requests that hooks have answered since a person last answered one or resumed the run."""
    resumption: LatestResume | None = None
    resumed_at: datetime | None = None
    recompiled: bool = False
    """Whether the plan was recompiled since the start."""
    items: dict[str, dict[str, PlannedItem]] = field(default_factory=dict)
    """The items of each stage over items, by its key in `visits`, then by id and in order. The one collection
    that grows with the work: each has at most the `max` of its stage."""

    frozen: dict[str, FrozenFiles] = field(default_factory=dict)
    """The files that must stay as they are, by the key of their stage in `visits`."""
    restorations: int = 0
    """How often frozen files were restored since a person was asked about it."""

    @property
    def is_stopped_by_shutdown(self) -> bool:
        return self.status is RunStatus.PAUSED and self.pause_reason == MACHINE_SHUTDOWN

    @property
    def note_texts(self) -> tuple[str, ...]:
        return tuple(note.text for note in self.notes)

    @property
    def open_requests(self) -> tuple[Request, ...]:
        return tuple(request for request in self.requests if request.is_open)

    @property
    def wake_at(self) -> datetime | None:
        """When a run that waits for people continues without an answer: the earliest time at which a default
        becomes one."""
        if not self.waits or self.stop is not None:
            return None
        times = (r.due_at for r in self.open_requests if r.due_at and r.default is not None)
        return min(times, default=None)

    def item_at(self, key: str, id: str) -> ItemAt | None:
        """An item of the stage with that key in `items`, with its position; or None."""
        ids = list(self.items.get(key, ()))
        return ItemAt(id, ids.index(id) + 1, len(ids)) if id in ids else None

    def waiver_of(self, stage: str) -> Waiver | None:
        return next((waiver for waiver in self.waivers if waiver.stage == stage), None)

    def hook_progress(self, host: HookHost) -> HookProgress | None:
        return next((progress for progress in self.hooks if progress.host == host), None)

    @property
    def node(self) -> StageState | None:
        """The current stage outside blocks, or None."""
        return self.at if isinstance(self.at, StageState) else None

    @property
    def block(self) -> BlockState | None:
        return self.at if isinstance(self.at, BlockState) else None

    def stage(self, provider: str | None) -> StageState | None:
        """The current stage of the run, or of a provider's branch; or None."""
        if provider is None:
            return self.node
        branch = self.block.branch(provider) if self.block else None
        return branch.stage if branch else None

    def task(self, kind: str, about: str, provider: str | None) -> TaskState | None:
        """The latest task of a kind in a stage, or the latest try of a hook's call."""
        if kind == "hook":
            calls = (progress.call for progress in self.hooks if progress.call)
            return next((call for call in calls if call.delivery == about), None)
        stage = self.stage(provider)
        return next((task for known, task in stage.tasks if known == kind), None) if stage else None

    def stage_asking(self, at: Cursor | None) -> StageState | None:
        """The stage whose iteration opened a request there, or None if that iteration is over."""
        stage = self.stage(at.provider) if at else None
        if stage is None or at is None or (stage.path, stage.run) != (at.node_path, at.node_run):
            return None
        number = stage.iteration.number if stage.iteration else stage.completed
        return stage if number == at.iteration else None

    def under_way(self) -> "Iterator[tuple[str | None, StageState]]":
        """Every stage in progress, with the provider of its branch."""
        match self.at:
            case StageState() as stage:
                yield None, stage
            case BlockState(branches=branches):
                for branch in branches:
                    if branch.stage is not None:
                        yield branch.provider, branch.stage

    @property
    def iteration(self) -> IterationState | None:
        return self.node.iteration if self.node else None

    @property
    def attempt(self) -> AttemptState | None:
        return self.iteration.attempt if self.iteration else None


def _resumed(branch: BranchState, stage_on_resume: "Callable[[StageState], StageState]") -> BranchState:
    status = NodeStatus.RUNNING if branch.status is NodeStatus.FAILED else branch.status
    stage = stage_on_resume(branch.stage) if branch.stage else None
    return replace(branch, status=status, failure=None, stage=stage)
