"""Work that should be running. Imperative, with deterministic ids; the driver starts what is missing."""

from datetime import datetime

from msgspec import Struct

from agentforge.model.event import Cursor
from agentforge.model.ids import work_id
from agentforge.model.place import Place
from agentforge.model.plan import StageNode


class _AtPlace(Struct, frozen=True):
    place: Place
    node: StageNode
    iteration: int

    @property
    def cursor(self) -> Cursor:
        return self.place.cursor(self.iteration)

    def _id(self, kind: str, attempt: int = 0) -> str:
        at = self.place
        return work_id(kind, at.path, at.run, self.iteration, attempt, provider=at.branch)


class Prepare(_AtPlace, frozen=True, tag="prepare"):
    """Read the prompt, write context.json and the rendered prompt. Outcome: `iteration_start`."""

    @property
    def id(self) -> str:
        return self._id("prepare")


class Execute(_AtPlace, frozen=True, tag="execute"):
    """Run the agent, or take up the one that is running. Outcome: complete, error, lost or cancelled."""

    attempt: int
    timeout: float | None
    idle_timeout: float | None

    @property
    def id(self) -> str:
        return self._id("execute", self.attempt)


class End(_AtPlace, frozen=True, tag="end"):
    """End the agent and everything it started. Outcome: cancelled, or what it had finished by then."""

    attempt: int

    @property
    def id(self) -> str:
        return self._id("end", self.attempt)


class Judge(_AtPlace, frozen=True, tag="judge"):
    """Ask the judge about a complete iteration, or take up one that is at it. Outcome: `judge_complete`."""

    attempt: int

    @property
    def id(self) -> str:
        return self._id("judge", self.attempt)


class EndJudge(_AtPlace, frozen=True, tag="end_judge"):
    """End a judge that nobody waits for any more. Outcome: `judge_lost`."""

    attempt: int

    @property
    def id(self) -> str:
        return self._id("end_judge", self.attempt)


class CheckQueue(_AtPlace, frozen=True, tag="check_queue"):
    """Count what is left in the queue. Outcome: `queue_checked`, or an error."""

    @property
    def id(self) -> str:
        return self._id("check_queue")


class WriteManifest(Struct, frozen=True, tag="write_manifest"):
    """List what all providers of a block left. Outcome: `manifest_written`."""

    place: Place

    @property
    def cursor(self) -> Cursor:
        return self.place.cursor(0)

    @property
    def id(self) -> str:
        return work_id("write_manifest", self.place.path, self.place.run, 0)


class Wait(Struct, frozen=True, tag="wait"):
    """Wait for a recorded time. Outcome: `timer_fired`."""

    timer: str
    due_at: datetime
    cursor: Cursor | None = None

    @property
    def id(self) -> str:
        at = self.cursor
        return f"wait/{self.timer}/{at.node_path}/{at.provider or ''}" if at else f"wait/{self.timer}"


Work = Prepare | Execute | End | Judge | EndJudge | CheckQueue | WriteManifest | Wait
