"""Who does an iteration's work: an agent program, a model, the user's own code."""

from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

from agentforge.model.failure import Failure
from agentforge.model.result import JSONObject, Usage


class ExecuteRequest(Struct, frozen=True):
    prompt: str
    model: str
    config: dict[str, Any]
    """Provider-specific; unknown keys are the provider's to warn about."""
    workdir: str
    environment: dict[str, str]
    """What the engine adds for the agent; a provider decides what else reaches it."""
    status_path: str
    result_path: str
    session: str = ""
    stage: str = ""
    iteration: int = 1
    attempt: int = 1
    prompt_path: str = ""
    """The rendered prompt as a file, for programs that want a path."""
    resume: str = ""
    """The agent's own session to go on with; empty: a fresh one."""
    node: str = ""
    """The stage's place in the pipeline, by kinds and ids."""
    branch: str = ""
    """The provider of a parallel block whose branch it is; empty outside of blocks."""
    judges: bool = False
    """Whether an iteration is to be judged, not done."""


class ExecuteResult(Struct, frozen=True):
    output: str = ""
    exit_code: int = 0
    duration_ms: int = 0
    usage: Usage | None = None
    failure: Failure | None = None
    """Set when the provider knows better than the exit code why the attempt failed."""
    result: JSONObject | None = None
    """What an agent would write to result.json, from a provider inside the engine."""


class Capabilities(Struct, frozen=True):
    supports_tools: bool = False
    supports_reasoning_control: bool = False
    supported_models: tuple[str, ...] = ()
    """Empty: any."""
    requires_sandbox: bool = False
    supports_resume: bool = False
    """Whether it can go on with an agent's own session (`ExecuteRequest.resume`)."""
    uses_files: bool = False
    """Of a provider inside the engine: whether `execute` reads or writes the iteration's files (prompt.md,
    context.json, the progress file, result.json, status.json). One that doesn't gets its prompt in the
    request and returns its result, and the engine writes nothing but the log. Programs always have them."""
    concurrent: bool = True
    """Whether several `execute` calls may run at once; otherwise the engine makes them wait in line."""


class Provider(Protocol):
    """In-process providers run inside the engine: they can be neither reattached to nor killed."""

    @property
    def name(self) -> str: ...

    async def init(self) -> None:
        """One-time set-up, called when the provider is registered, before any `execute`."""
        ...

    async def execute(self, request: ExecuteRequest) -> ExecuteResult: ...

    async def shutdown(self) -> None:
        """Release what `init` took; called on every way out."""
        ...

    def capabilities(self) -> Capabilities: ...

    def validate(self) -> None:
        """Called after `init`; raises ProviderUnusable with the exact fix."""
        ...


class Command(Struct, frozen=True):
    """A program to run as an agent."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """The whole environment: nothing else is inherited."""
    stdin: str = ""
    timeout: float | None = None
    """The provider's own limit in seconds; the stage's holds too, and the tighter one ends the agent."""
    idle_timeout: float | None = None
    """Seconds without any output, instead of the stage's: how much an agent buffers differs."""
    term_grace: float | None = None
    """Seconds between asking the agent to end and ending it, instead of the engine's."""
    separate_errors: bool = False
    """Whether what the program prints as errors is kept apart from its output (`Exit.errors`)."""
    secrets: tuple[str, ...] = ()
    """Values that must not reach any file of ours: hidden wherever the program prints them."""
    state: tuple[str, ...] = ()
    """Absolute paths in which the program keeps its own state: writable for it in a sandbox."""
    after: tuple[str, ...] = ()
    """A program to run once the agent is gone, as one whose work isn't below it in the process tree needs."""


class Exit(Struct, frozen=True):
    """How an agent program ended."""

    exit_code: int | None
    signal: int | None
    duration_ms: int
    output: str
    errors: str = ""
    """What it printed as errors, if that was kept apart."""
    truncated: bool = False
    """Whether it printed more than was kept, so that the end of it is missing."""
    before: Usage | None = None
    """What the agent's own session had used before, where this attempt went on with one."""
    ended_at: datetime | None = None
    """When it ended, for providers that say "in two hours"."""
    model: str = ""
    """Of the request, for programs that don't say it themselves."""
    config: dict[str, Any] = field(default_factory=dict)
    """Of the request, for a provider whose stages say how the output is read."""


@runtime_checkable
class ProcessProvider(Provider, Protocol):
    """A provider whose agent is a program: the engine runs it under its supervisor, so that it outlives
    the engine, is picked up again, and is ended with everything it started."""

    def command(self, request: ExecuteRequest) -> Command:
        """What to run; raises ProviderUnusable with the exact fix, which fails the attempt as
        `provider_missing`."""
        ...

    def interpret(self, exit: Exit) -> ExecuteResult:
        """What the exit and the output mean; pure. Of an agent that was killed, what its output has so far
        is worth reading too: the agent's session, to go on with it."""
        ...


@runtime_checkable
class ValidatesSettings(Protocol):
    """A provider that can tell before a run begins whether a stage's settings make sense."""

    def validate_settings(self, model: str, config: dict[str, Any]) -> None:
        """Raises ProviderUnusable with the exact fix. Not for what may come to be while the run goes on, as a
        program that an earlier stage builds, and not for keys: the next of a chain may have one."""
        ...


@runtime_checkable
class ShowsProgress(Protocol):
    """A process provider whose output isn't meant to be read by people."""

    def progress(self, line: str) -> str:
        """What a line of its output says, in words; nothing where it says nothing worth seeing."""
        ...
