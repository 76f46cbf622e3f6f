"""Work that should be running: tasks, and waits for a recorded time. Imperative, with deterministic ids; the
driver starts what is missing.

A task is self-contained: performing it requires nothing else of the run's state.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

from msgspec import Struct

from agentforge.model.artifact import ItemAt, PlannedItem
from agentforge.model.check import Baseline, Check, FilesBefore
from agentforge.model.cursor import Cursor
from agentforge.model.delivery import DeliverRule, DeliveryBase, DeliveryStep, PreparedDelivery
from agentforge.model.frozen import FilesAction, FilesSeen, FrozenFiles
from agentforge.model.hook import Hook
from agentforge.model.layout import AttemptLayout, RunLayout
from agentforge.model.place import Place
from agentforge.model.plan import ProviderChoice, SandboxChoice, StageNode
from agentforge.model.request import AnsweredQuestion, Feedback, Note, Request, UserRequest
from agentforge.model.result import Usage
from agentforge.model.spending import Amount, DailyAnswer, plus

# Tasks are compared by their ids: the driver starts what should be running and isn't, and cancels what is
# running and shouldn't be. So an id says what the task is about and its number, and nothing that can
# change while it runs. If it had the time limit, more time for an agent would end it and start another
# one.
#
# All else is given along. A performer that looked at the state would see it as it is when it looks, which
# may be after a resume, a new plan or another decision.

MARK = "AGENTFORGE_ATTEMPT"
"""The variable in which an agent and its tools carry the mark of their attempt."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

RecordedKind = Literal["judge", "queue", "hook", "check"]
"""Their outcomes are exchanges of a cassette, under the same name; an attempt of an agent is `work`."""
_OwnKind = Literal["prepare", "agent", "items", "ledger", "manifest", "repository", "deliver", "files"]
TaskKind = Literal[_OwnKind, RecordedKind]


class Task(Struct, frozen=True):
    """A unit of work of the runtime. Its intent, outcome, loss and ending are facts of its kind."""

    KIND: ClassVar[TaskKind]

    place: Place
    name: str
    """The stage or block that it belongs to."""
    iteration: int = 0
    attempt: int = 0
    ending: bool = False
    """Stop it and everything it started, instead of starting or awaiting it."""

    @property
    def cursor(self) -> Cursor:
        return self.place.cursor(self.iteration)

    @property
    def recorded_at(self) -> Cursor | None:
        """The cursor of its facts."""
        return self.cursor

    @property
    def about(self) -> str:
        """Tells it from other tasks of its kind with the same position and number."""
        return ""

    @property
    def label(self) -> str:
        """The same as the definition names it: another run of the same plan has it, too."""
        return self.about

    @property
    def id(self) -> str:
        return f"{self._key}/end" if self.ending else self._key

    @property
    def _key(self) -> str:
        about = f"/{self.about}" if self.about else ""
        return f"{task_place(self.cursor, self.attempt)}/{self.KIND}{about}"


class StartedTask(Task, frozen=True, kw_only=True):
    """A task with an intent: it may be running when its engine dies."""

    started_at: datetime
    timeout: float | None = None

    @property
    def names(self) -> dict[str, Any]:
        """The data that all facts about it have."""
        return {"attempt": self.attempt}

    def mark(self, run_id: str) -> str:
        """Identifies its processes and records. The time tells it from others with the same position and
        number: positions change when a run is recompiled."""
        stamp = (self.started_at - _EPOCH) // timedelta(microseconds=1)
        return f"{run_id}/{self._marked}@{stamp:x}"

    @property
    def _marked(self) -> str:
        return self._key

    def folder(self, layout: RunLayout) -> AttemptLayout:
        """Where the supervisor of its program has claim and exit record."""
        about = f"{self.label}-" if self.label else ""
        return layout.task_attempt(self.place.folder, self.KIND, f"{about}{self.iteration}", self.attempt)


def task_place(at: Cursor, attempt: int) -> str:
    """A task's position and number: stable across crashes."""
    path = at.node_path if at.provider is None else f"{at.node_path}@{at.provider}"
    return f"{path}/{at.node_run}/{at.iteration}/{attempt}"


class PrepareTask(Task, frozen=True, kw_only=True, tag="prepare"):
    """Read the prompt, write context.json and the rendered prompt. Outcome: `iteration_start` or an error."""

    KIND = "prepare"

    node: StageNode
    remaining: float | None = None
    """Seconds left under the runtime limit, or None without a limit."""
    notes: tuple[Note, ...] = ()
    """What people and hooks added to the context."""
    user_request: UserRequest | None = None
    feedback: Feedback | None = None
    answers: tuple[AnsweredQuestion, ...] = ()
    item: ItemAt | None = None


class ItemsTask(Task, frozen=True, kw_only=True, tag="items"):
    """Read the list of a stage over items, and compare it with what is done. Outcome: `items_planned`, or an
    error."""

    KIND = "items"

    node: StageNode
    known: tuple[PlannedItem, ...] = ()
    """As the visit before left them."""
    feedback: Feedback | None = None


class AgentTask(StartedTask, frozen=True, kw_only=True, tag="agent"):
    """Run the agent, or reattach to the one that is running. Outcome: complete, error, lost or cancelled."""

    KIND = "agent"

    node: StageNode
    by: ProviderChoice
    """The provider of the node's chain that runs it."""
    budget: Amount | None = None
    """What it may spend."""
    idle_timeout: float | None = None
    resume: str | None = None
    """The agent session that it resumes."""
    before: Usage | None = None
    """Usage of that session before this attempt."""
    prompt_sha256: str = ""
    """Hash of the prepared prompt."""
    prompt: str = ""
    """The prepared prompt, if this engine starts it; a later one reads its file."""
    is_new: bool = False
    """Whether its iteration's folder is new."""
    brief: bool = False
    """Whether an earlier attempt timed out: the agent is then given fewer earlier outputs."""
    remaining: float | None = None
    notes: tuple[Note, ...] = ()
    user_request: UserRequest | None = None
    feedback: Feedback | None = None
    answers: tuple[AnsweredQuestion, ...] = ()
    item: ItemAt | None = None
    invalid: str = ""
    """What was wrong with the artifact of the attempt before."""

    @property
    def _marked(self) -> str:
        # The mark of an attempt is the agent's own, as its tools see it: it names no kind.
        return task_place(self.cursor, self.attempt)

    def folder(self, layout: RunLayout) -> AttemptLayout:
        return layout.iteration(self.place.folder, self.iteration).attempt(self.attempt)


class JudgeTask(StartedTask, frozen=True, kw_only=True, tag="judge"):
    """Have a completed iteration judged, or reattach to a running judge. Outcome: `judge_complete`."""

    KIND = "judge"

    node: StageNode
    by: ProviderChoice
    budget: Amount | None = None

    def folder(self, layout: RunLayout) -> AttemptLayout:
        return layout.iteration(self.place.folder, self.iteration).judge_attempt(self.attempt)


LedgerUse = Literal["agent", "judge"]


def ledger_key(at: Cursor, attempt: int, use: str) -> str:
    """Of what an attempt or a judge reserves in the ledger."""
    return f"{task_place(at, attempt)}/ledger/{use}"


class LedgerTask(Task, frozen=True, kw_only=True, tag="ledger"):
    """Reserve what an attempt or a judge may spend within the cap of the day. Outcome: `daily_cap`."""

    KIND = "ledger"

    use: LedgerUse
    least_usd: float
    """Less is of no use."""
    most_usd: float
    cap_usd: float
    granted: dict[str, float]
    """What a person granted beyond the cap, by day."""
    run_usd: float
    """What the run has spent itself."""

    @property
    def _key(self) -> str:
        return ledger_key(self.cursor, self.attempt, self.use)

    def cap_on(self, day: str) -> float:
        return plus(self.cap_usd, self.granted.get(day, 0.0))

    @property
    def allowed(self) -> DailyAnswer:
        """Without a ledger, as in a replay."""
        return DailyAnswer("", self.cap_usd, 0.0, 0.0, self.most_usd)


class QueueTask(Task, frozen=True, tag="queue"):
    """Count the tasks left in the queue. Outcome: `queue_checked`, or an error."""

    KIND = "queue"


class ManifestTask(Task, frozen=True, tag="manifest"):
    """List the outputs of all providers of a block. Outcome: `manifest_written`."""

    KIND = "manifest"


class CheckTask(StartedTask, frozen=True, kw_only=True, tag="check"):
    """Run a check, or reattach to it. Outcome: `check_complete` or `check_lost`."""

    KIND = "check"

    node: StageNode
    check: Check
    before: FilesBefore = FilesBefore()
    """As an earlier engine saw them."""
    baseline: bool = False
    """Whether it is what later outcomes are compared with."""
    base: str | None = None
    """The files when the visit began, if a check compares them."""
    item: str = ""
    """The item whose criteria it verifies."""
    found: Baseline | None = None
    """What it found before the first agent, if its outcome is compared with that."""

    @property
    def about(self) -> str:
        return self.check.baseline if self.baseline else self.check.name

    @property
    def names(self) -> dict[str, Any]:
        named = {"check": self.check.name, "attempt": self.attempt}
        return {**named, "baseline": self.about} if self.baseline else named


class RepositoryTask(Task, frozen=True, tag="repository"):
    """Look at the files and the repository before the first agent. Outcome: `repository_seen`."""

    KIND = "repository"


class DeliverTask(StartedTask, frozen=True, kw_only=True, tag="deliver"):
    """Perform a step of a delivery; after a crash, look whether it is done. Outcome: `deliver_complete`,
    `deliver_failed` or `deliver_lost`."""

    KIND = "deliver"

    step: DeliveryStep
    rule: DeliverRule
    base: DeliveryBase
    tree: str | None = None
    """The files that the run left, if they are known."""
    prepared: PreparedDelivery | None = None
    accepted: tuple[str, ...] = ()
    """The ids of the problems that a person accepted."""
    date: datetime
    """Of the commit: the same for every try."""
    user_request: UserRequest | None = None

    @property
    def about(self) -> str:
        return self.step

    @property
    def names(self) -> dict[str, Any]:
        return {"what": self.step, "attempt": self.attempt}


class FilesTask(StartedTask, frozen=True, kw_only=True, tag="files"):
    """Look at the files of the project, freeze or restore some, or undo what a visit changed. It starts
    nothing and may be repeated. Outcome: what was found or done, or `files_failed`."""

    KIND = "files"

    node: StageNode
    action: FilesAction
    subject: str
    began: FilesSeen | None = None
    """The files at the start of the visit."""
    frozen: tuple[FrozenFiles, ...] = ()
    """What must stay as it is."""
    restorations: int = 0
    """How often files were restored so far."""
    prepared: str | None = None
    """The tree before, if an earlier engine began to replace files."""
    paths: tuple[str, ...] = ()
    """What that engine was going to replace."""

    @property
    def about(self) -> str:
        return f"{self.action} {self.subject}".rstrip()

    @property
    def names(self) -> dict[str, Any]:
        return {"action": self.action, "subject": self.subject, "attempt": self.attempt}


class HookTask(StartedTask, frozen=True, kw_only=True, tag="hook"):
    """Call a hook, or reattach to its script. Outcome: `hook_complete`, `hook_failed`, `hook_timeout` or
    `hook_lost`."""

    KIND = "hook"

    hook: Hook
    delivery: str
    at: Cursor | None
    """Where it is called; None if that is the run as a whole."""
    provider: str = ""
    notes: tuple[str, ...] = ()
    """The context so far."""
    status: str = "completed"
    """Of what it is called for, as in conditions."""
    request: Request | None = None
    """At the point `request`: what is asked."""
    text: str = ""
    """At the point `resume`: what the person said."""
    sandbox: SandboxChoice | None = None

    @property
    def recorded_at(self) -> Cursor | None:
        return self.at

    @property
    def about(self) -> str:
        return self.delivery

    @property
    def label(self) -> str:
        return self.hook.id

    @property
    def names(self) -> dict[str, Any]:
        called = {"hook": self.hook.id, "point": self.hook.point}
        return {**called, "delivery": self.delivery, "attempt": self.attempt}

    @property
    def _key(self) -> str:
        return f"hook/{self.delivery}/{self.attempt}"

    def folder(self, layout: RunLayout) -> AttemptLayout:
        return layout.hook_attempt(self.delivery, self.attempt)


class Wait(Struct, frozen=True, tag="wait"):
    """Wait for a recorded time. Outcome: `timer_fired`."""

    timer: str
    due_at: datetime
    cursor: Cursor | None = None

    @property
    def recorded_at(self) -> Cursor | None:
        return self.cursor

    @property
    def id(self) -> str:
        at = self.cursor
        return f"wait/{self.timer}/{at.node_path}/{at.provider or ''}" if at else f"wait/{self.timer}"


Work = Task | Wait
