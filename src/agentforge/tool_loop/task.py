"""The task of a model, the progress events of the program (one JSON object per line), and the outcome."""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct, field

from agentforge.model.errors import NOT_JSON, MissingKey, ProviderUnusable
from agentforge.model.failure import Failure
from agentforge.model.result import Usage
from agentforge.model.spending import Amount

Api = Literal["anthropic", "openai"]
Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]

DEFAULT_ALLOWED = (
    *("git status", "git diff", "git log", "git show", "git ls-files", "git blame"),
    *("pytest", "python -m pytest", "python3 -m pytest", "python -m unittest", "python3 -m unittest"),
    *("ruff", "mypy", "make test", "make check", "make lint"),
    *("npm test", "npm run test", "npm run lint", "npm run build"),
    *("go test", "go vet", "go build", "cargo test", "cargo check", "cargo build", "cargo clippy"),
)
"""The default commands of `run_command`: reading the git history, testing, building."""

TOOLS = ("read_file", "write_file", "edit_file", "list_directory", "search_code", "run_command")


SYSTEM = """\
You are a step of an automated pipeline and work on the files in {workspace}. No person is watching: decide
for yourself. Only if the work needs a decision that is not yours to make, call `{complete}` with the decision
"ask" and your questions: a person answers them later, and you are started again with the answers. Use the
tools to read and change the files; paths are relative to that folder. When the work is done, call
`{complete}` with a summary and your decision. If the task asks for a result.json or a status.json,
`{complete}` writes it: pass it the same content instead. If it asks for an artifact.json, pass that as
`result`.
"""


class Endpoint(Struct, frozen=True):
    """Where a model is served, and in which API format."""

    api: Api
    model: str
    base_url: str = ""
    """Empty: the maker's default."""
    key_env: str = ""
    """The variable that contains the key; empty: no key is sent."""
    bearer: bool = False
    """Whether the key is sent as a bearer token instead of an API key."""
    priced: bool = False
    """Whether the maker's prices apply; they don't for self-hosted models."""
    start_hint: str = ""
    """What to do if the server doesn't respond."""
    local: bool = False
    """Whether it must be on this machine."""

    @property
    def shown(self) -> str:
        return self.base_url or f"the {self.api} API"


class LocalServer(Struct, frozen=True):
    base_url: str
    start: str


LOCAL = {
    "ollama": LocalServer("http://127.0.0.1:11434/v1", "ollama serve"),
    "lmstudio": LocalServer("http://127.0.0.1:1234/v1", "lms server start"),
    "vllm": LocalServer("http://127.0.0.1:8000/v1", "vllm serve MODEL"),
}

EXAMPLES = "anthropic:claude-sonnet-5-5, openai:gpt-5.5 or ollama:qwen3-coder:30b"

# The makers' variables for the API key and for the base URL.
KEYS: dict[Api, str] = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
TOKEN = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - the variable's name.
ADDRESSES: dict[Api, str] = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}


def endpoint_of(
    name: str, environ: Mapping[str, str], *, api: Api | None = None, base_url: str = "", key_env: str = ""
) -> Endpoint:
    """Raises ProviderUnusable if the endpoint can't be inferred, MissingKey if the API key is missing."""
    maker, model = _split_name(name)
    if not model:
        raise ProviderUnusable("provider api: `model` is missing", hint=f"set `model`, such as {EXAMPLES}")
    if base_url and not base_url.startswith(("http://", "https://")):
        raise ProviderUnusable(
            f"provider api: `base_url` must be an http(s) URL, got {base_url!r}",
            hint="for example http://127.0.0.1:11434/v1",
        )
    if maker in LOCAL:
        server = LOCAL[maker]
        key = _named_key(key_env, environ) if key_env else ""
        return Endpoint(
            api or "openai",
            model,
            base_url or server.base_url,
            key,
            start_hint=f"start it with `{server.start}`",
        )
    format = api or cast(Api, maker) or _guess(model, base_url)
    if maker or not base_url:
        return _makers_own(format, model, base_url, key_env, environ)
    key = _named_key(key_env, environ) if key_env else ""
    return Endpoint(format, model, base_url, key)


def _split_name(name: str) -> tuple[str, str]:
    """Split `maker:model`; a colon after anything else belongs to the model's name (`qwen3-coder:30b`)."""
    maker, colon, model = name.strip().partition(":")
    if colon and (maker in LOCAL or maker in KEYS):
        return maker, model.strip()
    return "", name.strip()


def _guess(model: str, base_url: str) -> Api:
    if base_url:
        return "openai"
    if model.startswith("claude"):
        return "anthropic"
    raise ProviderUnusable(
        f"provider api: cannot infer which API serves model {model!r}",
        hint=f"add the server to the model's name, such as {EXAMPLES}, or set `base_url`",
    )


def _makers_own(format: Api, model: str, base_url: str, key_env: str, environ: Mapping[str, str]) -> Endpoint:
    address = base_url or environ.get(ADDRESSES[format], "")
    if format == "anthropic" and not key_env and not environ.get(KEYS[format]) and environ.get(TOKEN):
        return Endpoint(format, model, address, TOKEN, bearer=True, priced=True)
    return Endpoint(format, model, address, _named_key(key_env or KEYS[format], environ), priced=True)


def _named_key(variable: str, environ: Mapping[str, str]) -> str:
    if not environ.get(variable):
        raise MissingKey(
            f"provider api: {variable} is not set",
            hint=f"set the environment variable {variable} to the API key",
        )
    return variable


class ExtraTool(Struct, frozen=True):
    """A tool of the caller: its calls are recorded, and handled by the caller's handler."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    ends: bool = False
    """Whether a valid call ends the task; a tool named `complete` replaces the built-in one."""


class CommandRules(Struct, frozen=True):
    allow: tuple[str, ...] = DEFAULT_ALLOWED
    """Programs, or programs with their first arguments; `*` allows everything."""
    timeout: float = 120.0
    output_bytes: int = 32 * 1024


class Files(Struct, frozen=True):
    """The absolute paths of a task's files; a file with an empty path is not written."""

    workspace: str
    result: str = ""
    artifact: str = ""
    sessions: str = ""
    protected: tuple[str, ...] = ()
    """The model's tools can't write to these or below them."""
    writable: tuple[str, ...] = ()
    """Writable, even inside a protected path."""


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    """Of the input, what the server had in its cache; None: as the rest of the input."""

    def of(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        cached = self.input if self.cached is None else self.cached
        new = input_tokens - cached_tokens
        return (new * self.input + cached_tokens * cached + output_tokens * self.output) / 1e6


class ModelTask(Struct, frozen=True):
    prompt: str
    endpoint: Endpoint
    files: Files
    system: str = ""
    """Overrides the default instructions."""
    resume: str = ""
    schema: dict[str, Any] | None = None
    """The JSON Schema of the `result` given to `complete`."""
    is_artifact: bool = False
    """Whether the result is the artifact that the stage must leave."""
    verdicts: tuple[str, ...] = ()
    """Those that `complete` accepts; empty: it asks for none."""
    returns_items: bool = False
    """Whether `complete` accepts ids of items that must be done again."""
    tools: tuple[str, ...] = TOOLS
    extra_tools: tuple[ExtraTool, ...] = ()
    has_complete: bool = True
    """Whether the built-in tool `complete` is offered. Without it, text is the answer, unless another tool
    ends the task."""
    max_steps: int = 50
    max_tokens: int | None = None
    temperature: float | None = None
    retries: int = 2
    """How often a request is retried after a rate limit, an overload or a lost connection."""
    request_timeout: float = 120.0
    """Seconds without any data from the server."""
    commands: CommandRules = CommandRules()
    budget: Amount | None = None
    """What it may spend."""
    price: Price | None = None
    """As the settings say, for a model that isn't in the price list."""


class ToolCall(Struct, frozen=True):
    """A call that the model made, in the format that stage executors read."""

    tool_name: str
    input: dict[str, Any]
    result: str


class LoopOutcome(Struct, frozen=True):
    session: str
    text: str = ""
    """The model's last text, or the summary given to `complete`."""
    artifact: Any = None
    """The result, validated by the task's schema."""
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
    """A heartbeat while the model thinks."""


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


class LoopEnded(Struct, frozen=True, tag="result"):
    outcome: str
    text: str = ""
    steps: int = 0
    usage: Usage | None = None
    failure: Failure | None = None


ProgressEvent = SessionBegun | TextSaid | Thinking | ToolCalled | ToolAnswered | Retrying | Warned | LoopEnded

_decoder: msgspec.json.Decoder[ProgressEvent] = msgspec.json.Decoder(ProgressEvent)


def encode(event: ProgressEvent) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def decode(line: str) -> ProgressEvent | None:
    """The event of a line, or None for other output, such as a library's warning."""
    try:
        return _decoder.decode(line)
    except NOT_JSON:
        return None


def describe(event: ProgressEvent | None) -> str:
    match event:
        case TextSaid(text=text):
            return text
        case ToolCalled(name=name, input=given):
            return f"→ {name} {_main_argument(given)}".rstrip()
        case Retrying(wait=wait, reason=reason):
            return f"{reason}; retrying in {wait:g} s"
        case Warned(message=message):
            return message
        case LoopEnded(failure=Failure(message=message)):
            return message
        case _:
            return ""


def _main_argument(given: dict[str, Any]) -> str:
    """The most informative argument."""
    for key in ("path", "command", "pattern", "summary"):
        if key in given:
            value = given[key]
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            return text.splitlines()[0][:120] if text else ""
    return ""


PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.py")


def program_argv(python: str, *arguments: str) -> tuple[str, ...]:
    """The command line; nothing in the workspace or the environment can shadow our modules. `-P`: don't
    search the current directory or the script's; `-E`: ignore PYTHONPATH."""
    return (python, "-P", "-E", PROGRAM, *arguments)
