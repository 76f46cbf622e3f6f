"""Providers do the work of an iteration: an agent program, a model, or user code."""

from collections.abc import Sequence
from datetime import datetime
from posixpath import basename
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

from agentforge.model.failure import Failure
from agentforge.model.result import JSONObject, Usage
from agentforge.model.spending import Amount, Unit
from agentforge.model.task import MARK


class StageInput(Struct, frozen=True):
    """What a stage gets of the run, as data: for providers that read no prompt."""

    pipeline: str
    """The name of the pipeline."""
    index: int
    """The position of the stage among the nodes of its pipeline."""
    visit: int
    """1 for the first."""
    user_request: str = ""
    artifact: JSONObject = {}
    """The artifacts of earlier stages, merged, with the keys of the engine."""
    artifacts: dict[str, JSONObject] = {}
    """By the ids of the stages that left them, in the order of the plan."""
    previous: JSONObject | None = None
    """The stage's own last artifact."""
    feedback: str | None = None
    """Why the previous visit was rejected."""
    answers: dict[str, str] = {}
    """By the questions that the stage asked."""
    timeout: float | None = None
    max_tokens: int | None = None


class ExecuteRequest(Struct, frozen=True):
    prompt: str
    model: str
    config: dict[str, Any]
    """Provider-specific; the provider warns about unknown keys."""
    workdir: str
    environment: dict[str, str]
    """Variables that the engine adds for the agent; the provider decides what else is passed on."""
    status_path: str
    result_path: str
    session: str = ""
    stage: str = ""
    iteration: int = 1
    attempt: int = 1
    prompt_path: str = ""
    """The rendered prompt as a file, for programs that take a path."""
    context_path: str = ""
    progress_path: str = ""
    """The notes that the iterations of a stage share."""
    outbox: str = ""
    """A folder outside `.claude`, for a program that can't write to the paths above: `outbox_paths`."""
    resume: str = ""
    """The agent session to resume; empty: start a new one."""
    node: str = ""
    """The stage's place in the pipeline, by kinds and ids."""
    branch: str = ""
    """The provider of the branch in a parallel block; empty outside blocks."""
    verdicts: tuple[str, ...] = ()
    """The verdicts that the result may have; empty: the stage expects none."""
    returns_items: bool = False
    """Whether the result may name items of another stage that must be done again, in `items`."""
    judges: bool = False
    """Whether the request is a judgment of an iteration instead of its work."""
    artifact_path: str = ""
    """Where a program writes the artifact; empty: the stage has none."""
    schema: JSONObject | None = None
    """What the artifact must match; None: the stage has none."""
    given: StageInput | None = None
    """Only for providers with `Capabilities.reads_input`."""
    budget: Amount | None = None
    """What it may spend. A provider whose `Capabilities.bounds` have the unit ends before it spends more,
    with the failure `cap_reached`; None: it isn't bounded."""

    @property
    def outbox_paths(self) -> dict[str, str]:
        """By path: where the file is in the outbox. The engine puts copies of context and notes there, and
        takes result and notes from there."""
        paths = (
            *(self.result_path, self.status_path, self.context_path, self.progress_path),
            self.artifact_path,
        )
        return {path: f"{self.outbox}/{basename(path)}" for path in paths if path}

    @property
    def mark(self) -> str:
        """Identifies the attempt; the agent has it in its environment."""
        return self.environment.get(MARK) or self.result_path


class ExecuteResult(Struct, frozen=True):
    output: str = ""
    exit_code: int = 0
    duration_ms: int = 0
    usage: Usage | None = None
    failure: Failure | None = None
    """Set when the provider knows more than the exit status about why the attempt failed."""
    result: JSONObject | None = None
    """The content of result.json, returned by an in-process provider."""
    artifact: JSONObject | None = None
    """The artifact, if the provider has it: one that its program wrote to the file counts first."""


class Capabilities(Struct, frozen=True):
    supports_tools: bool = False
    supports_reasoning_control: bool = False
    supported_models: tuple[str, ...] = ()
    """Empty: any."""
    requires_sandbox: bool = False
    supports_resume: bool = False
    """Whether it can resume an agent session (`ExecuteRequest.resume`)."""
    uses_files: bool = False
    """For in-process providers: whether `execute` reads or writes the iteration's files (prompt.md,
    context.json, the progress file, result.json, status.json). If not, it gets its prompt in the request and
    returns its result, and the engine writes only the log. Programs always get the files."""
    writes_result: bool = False
    """Whether its agent writes the result only if the prompt asks for it, as agent CLIs do. The engine then
    extends prompts that don't."""
    can_judge: bool = True
    """Whether it answers any prompt, as a judge must; a fixed command doesn't."""
    concurrent: bool = True
    """Whether several `execute` calls may run at once; otherwise the engine serializes them."""
    reads_input: bool = False
    """Whether it works from `ExecuteRequest.given` instead of a prompt."""
    bounds: tuple[Unit, ...] = ()
    """What it keeps to by itself if the request has a budget: `cost_usd`, `tokens`."""


class Provider(Protocol):
    """In-process providers run inside the engine: they can be neither reattached to nor killed."""

    @property
    def name(self) -> str: ...

    async def init(self) -> None:
        """One-time setup, called before any `execute`."""

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        """Cancelled when its time limit is over or the run is stopped. It then ends soon: nothing that it
        started runs on. What it returns after that doesn't count as a success."""

    async def shutdown(self) -> None:
        """Release the resources that `init` acquired; always called."""

    def capabilities(self) -> Capabilities: ...

    def validate(self) -> None:
        """Called after `init`; raises ProviderUnusable with a hint that states the fix."""


class Command(Struct, frozen=True):
    """A program to run as an agent."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """The complete environment: nothing else is inherited."""
    stdin: str = ""
    timeout: float | None = None
    """The provider's limit in seconds; the shorter of this and the stage's timeout applies."""
    idle_timeout: float | None = None
    """Seconds without any output; overrides the stage's, since agents buffer differently."""
    term_grace: float | None = None
    """Seconds between SIGTERM and SIGKILL; overrides the engine's default."""
    separate_errors: bool = False
    """Whether stderr is captured separately from stdout (`Exit.errors`)."""
    secrets: tuple[str, ...] = ()
    """Values that must not reach any of our files: redacted wherever the program prints them."""
    outbox: str = ""
    """The outbox of the request, if the program writes to it; the engine creates it."""
    state: tuple[str, ...] = ()
    """Absolute paths of the program's own state: writable in a sandbox."""
    descriptors: dict[int, str] = {}
    """Set by sandboxes: what the program can read from these descriptors (3 and above), for what neither its
    command line nor its environment may show."""


class Exit(Struct, frozen=True):
    """How an agent program ended."""

    exit_code: int | None
    signal: int | None
    duration_ms: int
    output: str
    errors: str = ""
    """Its stderr, if captured separately."""
    truncated: bool = False
    """Whether the output exceeded the cap, so that its end is missing."""
    before: Usage | None = None
    """The usage of the agent session before this attempt resumed it."""
    ended_at: datetime | None = None
    """When it ended, to resolve relative times such as "in two hours"."""
    model: str = ""
    """From the request, for programs that don't report it."""
    config: dict[str, Any] = field(default_factory=dict)
    """From the request, for providers whose config defines the output format."""
    budget: Amount | None = None
    """From the request, to tell a cap of the run from a limit of the agent's own."""


@runtime_checkable
class ProcessProvider(Provider, Protocol):
    """A provider whose agent is a program: the engine runs it under the supervisor, so that it outlives
    the engine, can be reattached to, and is ended with everything it started."""

    def command(self, request: ExecuteRequest) -> Command:
        """The program to run; raises ProviderUnusable, which fails the attempt as `provider_missing`,
        or MissingKey: `provider_auth`."""

    def interpret(self, exit: Exit) -> ExecuteResult:
        """Interpret the exit and the output; pure. The output of a killed agent is also worth reading: it
        may contain the agent session to resume."""


@runtime_checkable
class CleansUp(Protocol):
    """A process provider whose agent works outside the process tree, such as on another machine."""

    def cleanup(self, mark: str) -> tuple[str, ...]:
        """The program that ends the work of an attempt and removes what it left, safe to repeat: the
        supervisor runs it once the agent's program is gone, a later engine if the supervisor died. `mark` is
        that of the attempt's request."""


@runtime_checkable
class ValidatesSettings(Protocol):
    """A provider that can validate a stage's settings before a run starts."""

    def validate_settings(self, model: str, config: dict[str, Any]) -> Sequence[str] | None:
        """Returns what to warn about. Raises ProviderUnusable. Must not check what may appear during the run,
        such as a program that an earlier stage builds, nor API keys: the next provider of a chain may have
        one."""


class Endpoints(Struct, frozen=True):
    """Where the requests of a provider go."""

    addresses: tuple[str, ...] = ()
    """HTTP addresses; empty: it sends none by itself."""
    environment: dict[str, str] = {}
    """The variables of its program, which may name a proxy."""


@runtime_checkable
class NamesEndpoints(Protocol):
    """A provider that says which servers it calls. A run with `network: local` refuses all others."""

    def endpoints(self, model: str, config: dict[str, Any]) -> Endpoints:
        """Raises ProviderUnusable if it calls a service elsewhere, or if that is unknown; the hint says how
        to name a server on this machine."""


@runtime_checkable
class KnowsStages(Protocol):
    """The provider of the stages that the program executes itself."""

    def lacks(self, stages: Sequence[str]) -> Sequence[str]:
        """Those of the stages that it can't execute."""


@runtime_checkable
class KnowsPrices(Protocol):
    """A provider that keeps to a cost only for the models whose prices it knows."""

    def missing_price(self, model: str, config: dict[str, Any]) -> str | None:
        """None if it knows the price; otherwise what to add so that it does, "" if nothing helps."""


@runtime_checkable
class BuildsSandbox(Protocol):
    """A provider whose program may build a sandbox of its own, which not every sandbox allows."""

    def builds_sandbox(self, config: dict[str, Any]) -> str:
        """The settings that make it build none, for people; empty: it builds none with these settings."""


@runtime_checkable
class SendsMore(Protocol):
    """A provider that sends the model more of ours than the prompt of the request, such as a system prompt.
    It counts towards a budget of tokens."""

    def sent_besides(self, config: dict[str, Any], schema: JSONObject | None) -> str:
        """`schema`: that of the artifact, which the prompt has, too."""


@runtime_checkable
class ShowsProgress(Protocol):
    """A process provider whose output is not human-readable."""

    def progress(self, line: str) -> str:
        """A line of its output as human-readable text, or "" if it is not worth showing."""
