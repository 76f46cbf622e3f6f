"""Work that should be running. Imperative, with deterministic ids; the driver starts what is missing."""

from datetime import datetime

from msgspec import Struct

from agentforge.model.event import Cursor
from agentforge.model.ids import work_id
from agentforge.model.plan import ParallelNode, Plan, StageNode


class Spot(Struct, frozen=True):
    """A stage's place in a run: what its events and files are named by."""

    step: int
    path: str
    run: int
    provider: str | None = None
    """The branch of a parallel block."""
    stage: int = 0
    """Which stage of the branch."""

    def node(self, plan: Plan) -> StageNode:
        node = plan.steps[self.step].node
        if isinstance(node, ParallelNode):
            return next(b for b in node.branches if b.provider == self.provider).stages[self.stage]
        return node

    def folder(self, plan: Plan) -> str:
        """The stage's directory, relative to the run's own."""
        step = plan.steps[self.step]
        if self.provider is None:
            return step.dir
        return f"{self.scope(plan)}/stage-{self.stage:02d}-{self.node(plan).id}"

    def scope(self, plan: Plan) -> str:
        """The branch's directory, relative to the run's own; nothing outside of a block."""
        return "" if self.provider is None else f"{plan.steps[self.step].dir}/providers/{self.provider}"

    def cursor(self, iteration: int) -> Cursor:
        return Cursor(self.path, self.run, iteration, self.provider)


class _AtSpot(Struct, frozen=True):
    spot: Spot
    iteration: int

    @property
    def cursor(self) -> Cursor:
        return self.spot.cursor(self.iteration)

    def _id(self, kind: str, attempt: int = 0) -> str:
        spot = self.spot
        return work_id(kind, spot.path, spot.run, self.iteration, attempt, provider=spot.provider)


class Prepare(_AtSpot, frozen=True, tag="prepare"):
    """Read the prompt, write context.json and the rendered prompt. Outcome: `iteration_start`."""

    @property
    def id(self) -> str:
        return self._id("prepare")


class Execute(_AtSpot, frozen=True, tag="execute"):
    """Run the agent, or take up the one that is running. Outcome: complete, error, lost or cancelled."""

    attempt: int
    timeout: float | None
    idle_timeout: float | None

    @property
    def id(self) -> str:
        return self._id("execute", self.attempt)


class End(_AtSpot, frozen=True, tag="end"):
    """End the agent and everything it started. Outcome: cancelled, or what it had finished by then."""

    attempt: int

    @property
    def id(self) -> str:
        return self._id("end", self.attempt)


class Judge(_AtSpot, frozen=True, tag="judge"):
    """Ask the judge about a complete iteration, or take up one that is at it. Outcome: `judge_complete`."""

    attempt: int

    @property
    def id(self) -> str:
        return self._id("judge", self.attempt)


class EndJudge(_AtSpot, frozen=True, tag="end_judge"):
    """End a judge that nobody waits for any more. Outcome: `judge_lost`."""

    attempt: int

    @property
    def id(self) -> str:
        return self._id("end_judge", self.attempt)


class CheckQueue(_AtSpot, frozen=True, tag="check_queue"):
    """Count what is left in the queue. Outcome: `queue_checked`, or an error."""

    @property
    def id(self) -> str:
        return self._id("check_queue")


class WriteManifest(Struct, frozen=True, tag="write_manifest"):
    """List what all providers of a block left. Outcome: `manifest_written`."""

    step: int
    path: str
    run: int

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.path, self.run, 0)

    @property
    def id(self) -> str:
        return work_id("write_manifest", self.path, self.run, 0)


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
