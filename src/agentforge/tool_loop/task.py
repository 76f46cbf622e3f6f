"""What a model is asked to do, with what, what the program says while it works (one JSON object a line), and
what came of it."""

import os
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from agentforge.model.failure import Failure
from agentforge.model.result import Usage

Api = Literal["anthropic", "openai"]

DEFAULT_ALLOWED = (
    *("git status", "git diff", "git log", "git show", "git ls-files", "git blame"),
    *("pytest", "python -m pytest", "python3 -m pytest", "python -m unittest", "python3 -m unittest"),
    *("ruff", "mypy", "make test", "make check", "make lint"),
    *("npm test", "npm run test", "npm run lint", "npm run build"),
    *("go test", "go vet", "go build", "cargo test", "cargo check", "cargo build", "cargo clippy"),
)
"""What `run_command` may start where nobody says otherwise: looking at the history, testing, building."""

TOOLS = ("read_file", "write_file", "edit_file", "list_directory", "search_code", "run_command")


class Endpoint(Struct, frozen=True):
    """Where a model is asked, and in which format."""

    api: Api
    model: str
    base_url: str = ""
    """Empty: the maker's own address."""
    key_env: str = ""
    """The variable that holds the key; empty: none is sent."""
    bearer: bool = False
    """Whether the key is sent as a token of authorization instead of an API key."""
    priced: bool = False
    """Whether the maker's price list holds: not for a model that somebody runs himself."""
    start_hint: str = ""
    """What to do if nobody answers at the address."""

    @property
    def shown(self) -> str:
        return self.base_url or f"{self.api}'s own address"


class ExtraTool(Struct, frozen=True):
    """A tool of the caller's: what the model gives it is recorded, and answered by the caller's handler."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    ends: bool = False
    """Whether a valid call of it ends the task; one that is called `complete` takes the place of ours."""


class CommandRules(Struct, frozen=True):
    allow: tuple[str, ...] = DEFAULT_ALLOWED
    """Programs, or programs with their first arguments; `*` allows everything."""
    timeout: float = 120.0
    output_bytes: int = 32 * 1024


class Files(Struct, frozen=True):
    """Where a task's files lie, as absolute paths; nothing is written where there is no path."""

    workspace: str
    result: str = ""
    artifact: str = ""
    sessions: str = ""
    protected: tuple[str, ...] = ()
    """Never written by the model's tools, with all that lies below."""
    writable: tuple[str, ...] = ()
    """Written all the same, though below something protected."""


class ModelTask(Struct, frozen=True):
    prompt: str
    endpoint: Endpoint
    files: Files
    system: str = ""
    """Instead of our own instructions."""
    resume: str = ""
    schema: dict[str, Any] | None = None
    """What the `result` given to `complete` must fit."""
    tools: tuple[str, ...] = TOOLS
    extra_tools: tuple[ExtraTool, ...] = ()
    max_steps: int = 50
    max_tokens: int | None = None
    temperature: float | None = None
    retries: int = 2
    """How often one request is sent again after a limit, an overload or a broken connection."""
    request_timeout: float = 120.0
    """Seconds without a byte from the server."""
    commands: CommandRules = CommandRules()


class ToolCall(Struct, frozen=True):
    """A call that the model made, in the words that stage executors read."""

    tool_name: str
    input: dict[str, Any]
    result: str


class TaskOutcome(Struct, frozen=True):
    session: str
    text: str = ""
    """What the model said last, or the summary that it completed with."""
    artifact: Any = None
    """What fits the task's schema."""
    tool_calls: tuple[ToolCall, ...] = ()
    steps: int = 0
    usage: Usage | None = None
    failure: Failure | None = None


class SessionBegun(Struct, frozen=True, tag="session"):
    session: str
    model: str
    resumed: bool = False


class TextSaid(Struct, frozen=True, tag="text"):
    text: str


class Thinking(Struct, frozen=True, tag="thinking"):
    """A sign of life while the model thinks."""


class ToolCalled(Struct, frozen=True, tag="tool"):
    name: str
    input: dict[str, Any]


class ToolAnswered(Struct, frozen=True, tag="tool_result"):
    name: str
    text: str


class Retrying(Struct, frozen=True, tag="retry"):
    number: int
    wait: float
    reason: str


class Warned(Struct, frozen=True, tag="warning"):
    message: str


class Ended(Struct, frozen=True, tag="result"):
    outcome: str
    text: str = ""
    steps: int = 0
    usage: Usage | None = None
    failure: Failure | None = None


ProgressEvent = SessionBegun | TextSaid | Thinking | ToolCalled | ToolAnswered | Retrying | Warned | Ended

_decoder: msgspec.json.Decoder[ProgressEvent] = msgspec.json.Decoder(ProgressEvent)


def encode(event: ProgressEvent) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def decode(line: str) -> ProgressEvent | None:
    """The event of a line; nothing if it is something else, such as a library's warning."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def describe(event: ProgressEvent | None) -> str:
    match event:
        case TextSaid(text=text):
            return text
        case ToolCalled(name=name, input=given):
            return f"→ {name} {_gist(given)}".rstrip()
        case Retrying(wait=wait, reason=reason):
            return f"{reason}; again in {wait:g} s"
        case Warned(message=message):
            return message
        case Ended(failure=Failure(message=message)):
            return message
        case _:
            return ""


def _gist(given: dict[str, Any]) -> str:
    """The argument that tells most."""
    for key in ("path", "command", "pattern", "summary"):
        if key in given:
            value = given[key]
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            return text.splitlines()[0][:120] if text else ""
    return ""


PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.py")


def program_argv(python: str, *arguments: str) -> tuple[str, ...]:
    """How it is started, so that nothing in the workspace or the environment stands in for our code. `-P`:
    neither the current folder nor the script's is searched for modules; `-E`: nor is PYTHONPATH."""
    return (python, "-P", "-E", PROGRAM, *arguments)
