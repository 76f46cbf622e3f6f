"""Facts about nodes: stages, parallel blocks, and the waits between iterations."""

from datetime import datetime
from typing import Literal

from agentforge.model.cursor import Destination
from agentforge.model.facts.fact import Fact


class NodeStarted(Fact, frozen=True):
    """A stage, or with `kind` a parallel block, was entered: a visit of it began."""

    TYPE = "node_start"

    name: str
    path: str = ""
    run: int = 1
    """Which visit this is."""
    folder: str = ""
    """Of this visit, relative to the run's own directory."""
    rounds: tuple[int, ...] = (1,)
    type: str = ""
    provider: str = ""
    model: str = ""
    runs: int = 1
    kind: Literal["parallel"] | None = None
    providers: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()


class NodeCompleted(Fact, frozen=True):
    TYPE = "node_complete"

    name: str
    reason: str
    iterations: int
    status: Literal["completed"] = "completed"
    next: Destination | None = None
    """Where the run goes from here; None: nowhere, it is at its end."""


class ProviderStarted(Fact, frozen=True):
    """A provider began its part of a parallel block."""

    TYPE = "parallel_provider_start"

    provider: str
    stages: tuple[str, ...]


class ProviderCompleted(Fact, frozen=True):
    TYPE = "parallel_provider_complete"

    provider: str
    status: Literal["completed", "failed"] = "completed"
    error: str | None = None


class WorkerCompleted(Fact, frozen=True):
    """An agent inside a parallel block ended."""

    TYPE = "worker_complete"

    result_file: str
    exit_code: int


class StageCompleted(Fact, frozen=True):
    """A provider finished one stage of a parallel block."""

    TYPE = "stage_complete"

    name: str
    reason: str
    iterations: int


class ManifestWritten(Fact, frozen=True):
    """What all providers of a block left is listed in one file."""

    TYPE = "manifest_written"

    path: str


class DelayStarted(Fact, frozen=True):
    """The pause between two iterations."""

    TYPE = "delay_start"

    due_at: datetime


class TimerFired(Fact, frozen=True):
    TYPE = "timer_fired"

    timer: str
