"""The compiled pipeline. Its encoding is plan.json; the copy in the log is what a run is pinned to."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

PLAN_VERSION = 1

Mode = Literal["loop", "pipeline"]


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


class Fixed(Struct, frozen=True, tag="fixed", tag_field="type", omit_defaults=True):
    """Ends after `max` iterations, or earlier when the agent says stop."""

    max: int
    iterations: int | None = None


Termination = Fixed


class RetryPolicy(Struct, frozen=True):
    max_attempts: int = 2
    initial_delay: float = 2.0
    multiplier: float = 2.0
    max_delay: float = 30.0


class StageNode(Struct, frozen=True, tag="stage", tag_field="kind", omit_defaults=True):
    path: str
    id: str
    stage: str
    runs: int
    termination: Termination
    inputs: dict[str, Any]
    provider: ProviderChoice
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


Node = StageNode


class Plan(Struct, frozen=True):
    mode: Mode
    compiled_at: datetime
    source: PlanSource
    session: PlanSession
    pipeline: PipelineInfo
    dependencies: dict[str, bool]
    nodes: tuple[Node, ...]
    version: int = PLAN_VERSION

    def providers(self) -> frozenset[str]:
        """The providers that a process needs in order to continue this run."""
        return frozenset(node.provider.type for node in self.nodes)
