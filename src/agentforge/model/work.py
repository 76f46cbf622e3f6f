"""Work that should be running. Imperative, with deterministic ids; the driver starts what is missing."""

from datetime import datetime

from msgspec import Struct

from agentforge.model.ids import work_id


class Prepare(Struct, frozen=True, tag="prepare"):
    """Read the prompt, write context.json and the rendered prompt. Outcome: `iteration_start`."""

    node: int
    node_path: str
    node_run: int
    iteration: int

    @property
    def id(self) -> str:
        return work_id("prepare", self.node_path, self.node_run, self.iteration)


class Execute(Struct, frozen=True, tag="execute"):
    """Run the agent, or take up the one that is running. Outcome: complete, error, lost or cancelled."""

    node: int
    node_path: str
    node_run: int
    iteration: int
    attempt: int
    timeout: float | None
    idle_timeout: float | None

    @property
    def id(self) -> str:
        return work_id("execute", self.node_path, self.node_run, self.iteration, self.attempt)


class End(Struct, frozen=True, tag="end"):
    """End the agent and everything it started. Outcome: cancelled, or what it had finished by then."""

    node: int
    node_path: str
    node_run: int
    iteration: int
    attempt: int

    @property
    def id(self) -> str:
        return work_id("end", self.node_path, self.node_run, self.iteration, self.attempt)


class Wait(Struct, frozen=True, tag="wait"):
    """Wait for a recorded time. Outcome: `timer_fired`."""

    timer: str
    due_at: datetime

    @property
    def id(self) -> str:
        return f"wait/{self.timer}"


Work = Prepare | Execute | End | Wait
