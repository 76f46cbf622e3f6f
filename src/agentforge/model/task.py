"""Work that should be running: tasks, and waits for a recorded time. Imperative, with deterministic ids; the
driver starts what is missing.

A task is self-contained: performing it requires nothing else of the run's state.
"""

from datetime import UTC, datetime, timedelta
from typing import ClassVar, Literal

from msgspec import Struct

from agentforge.model.check import Check, FilesBefore
from agentforge.model.cursor import Cursor
from agentforge.model.hook import Hook
from agentforge.model.place import Place
from agentforge.model.plan import ProviderChoice, SandboxChoice, StageNode
from agentforge.model.request import AnsweredQuestion, Feedback, Note, Request
from agentforge.model.result import Usage

MARK = "AGENTFORGE_ATTEMPT"
"""The variable in which an agent and its tools carry the mark of their attempt."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TaskKind = Literal["prepare", "agent", "judge", "queue", "manifest", "hook", "check"]


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
    def subject(self) -> str:
        """Tells it from other tasks of its kind with the same position and number."""
        return ""

    @property
    def id(self) -> str:
        return f"{self._where}/{self.KIND}/end" if self.ending else f"{self._where}/{self.KIND}"

    @property
    def _where(self) -> str:
        return task_place(self.cursor, self.attempt)


def agent_mark(run_id: str, at: Cursor, attempt: int, started_at: datetime) -> str:
    """Identifies the processes and records of an attempt. The time tells it from others with the same
    position and number: positions change when a run is recompiled."""
    return f"{run_id}/{task_place(at, attempt)}@{_stamp(started_at)}"


def judge_mark(run_id: str, at: Cursor, attempt: int, started_at: datetime) -> str:
    return f"{run_id}/{task_place(at, attempt)}/judge@{_stamp(started_at)}"


def check_mark(run_id: str, at: Cursor, check: str, attempt: int, started_at: datetime) -> str:
    return f"{run_id}/{task_place(at, attempt)}/check/{check}@{_stamp(started_at)}"


def hook_mark(run_id: str, delivery: str, attempt: int, started_at: datetime) -> str:
    return f"{run_id}/hook/{delivery}/{attempt}@{_stamp(started_at)}"


def _stamp(time: datetime) -> str:
    return f"{(time - _EPOCH) // timedelta(microseconds=1):x}"


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
    feedback: Feedback | None = None
    answers: tuple[AnsweredQuestion, ...] = ()


class AgentTask(Task, frozen=True, kw_only=True, tag="agent"):
    """Run the agent, or reattach to the one that is running. Outcome: complete, error, lost or cancelled."""

    KIND = "agent"

    node: StageNode
    by: ProviderChoice
    """The provider of the node's chain that runs it."""
    started_at: datetime
    timeout: float | None = None
    idle_timeout: float | None = None
    resume: str | None = None
    """The agent session that it resumes."""
    before: Usage | None = None
    """Usage of that session before this attempt."""
    prompt_sha256: str = ""
    """Hash of the prepared prompt."""
    brief: bool = False
    """Whether an earlier attempt timed out: the agent is then given fewer earlier outputs."""
    remaining: float | None = None
    notes: tuple[Note, ...] = ()
    feedback: Feedback | None = None
    answers: tuple[AnsweredQuestion, ...] = ()

    def mark(self, run_id: str) -> str:
        return agent_mark(run_id, self.cursor, self.attempt, self.started_at)


class JudgeTask(Task, frozen=True, kw_only=True, tag="judge"):
    """Have a completed iteration judged, or reattach to a running judge. Outcome: `judge_complete`."""

    KIND = "judge"

    node: StageNode
    by: ProviderChoice
    started_at: datetime

    def mark(self, run_id: str) -> str:
        return judge_mark(run_id, self.cursor, self.attempt, self.started_at)


class QueueTask(Task, frozen=True, tag="queue"):
    """Count the tasks left in the queue. Outcome: `queue_checked`, or an error."""

    KIND = "queue"


class ManifestTask(Task, frozen=True, tag="manifest"):
    """List the outputs of all providers of a block. Outcome: `manifest_written`."""

    KIND = "manifest"


class CheckTask(Task, frozen=True, kw_only=True, tag="check"):
    """Run a check, or reattach to it. Outcome: `check_complete` or `check_lost`."""

    KIND = "check"

    node: StageNode
    check: Check
    started_at: datetime
    timeout: float | None = None
    before: FilesBefore = FilesBefore()
    """As an earlier engine saw them."""

    @property
    def subject(self) -> str:
        return self.check.name

    @property
    def id(self) -> str:
        return f"{self._where}/check/{self.check.name}{'/end' if self.ending else ''}"

    def mark(self, run_id: str) -> str:
        return check_mark(run_id, self.cursor, self.check.name, self.attempt, self.started_at)


class HookTask(Task, frozen=True, kw_only=True, tag="hook"):
    """Call a hook, or reattach to its script. Outcome: `hook_complete`, `hook_failed`, `hook_timeout` or
    `hook_lost`."""

    KIND = "hook"

    hook: Hook
    delivery: str
    started_at: datetime
    at: Cursor | None
    """Where it is called; None if that is the run as a whole."""
    provider: str = ""
    notes: tuple[str, ...] = ()
    """The context so far."""
    request: Request | None = None
    """At the point `request`: what is asked."""
    text: str = ""
    """At the point `resume`: what the person said."""
    sandbox: SandboxChoice | None = None

    @property
    def recorded_at(self) -> Cursor | None:
        return self.at

    @property
    def subject(self) -> str:
        return self.delivery

    @property
    def id(self) -> str:
        return f"{self.delivery}/{self.attempt}/{self.KIND}{'/end' if self.ending else ''}"

    def mark(self, run_id: str) -> str:
        return hook_mark(run_id, self.delivery, self.attempt, self.started_at)


AnyTask = PrepareTask | AgentTask | JudgeTask | QueueTask | ManifestTask | HookTask | CheckTask


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


Work = AnyTask | Wait
