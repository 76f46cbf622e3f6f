"""The cassette: recorded agent work as JSON lines, a header followed by one exchange per line.

The format is described in docs/cassettes.md. This module defines its types and parses it; recording and
replaying are done elsewhere.
"""

from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from agentforge.model.errors import NOT_JSON, ProviderUnusable
from agentforge.model.failure import FailureKind
from agentforge.model.names import protected_step
from agentforge.model.plan import Plan
from agentforge.model.plan_limits import plan_problem
from agentforge.model.result import JSONObject
from agentforge.model.state import Waiver
from agentforge.model.task import RecordedKind

FORMAT: Final = "agentforge-cassette"
VERSION = 1
MAX_CASSETTE = 1 << 30
"""The largest cassette that is read, in bytes."""

Seconds = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
NonEmpty = Annotated[str, Meta(min_length=1)]
ExchangeKind = Literal["", "work", "answer", RecordedKind]


# Cassettes are also written by hand: a misspelled key is an error, and not a step that does nothing.
class Header(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    format: Literal["agentforge-cassette"]
    version: int
    name: str = ""
    description: str = ""
    session: str = ""
    """Session of the recorded run."""
    engine: str = ""
    """The version that recorded it."""
    pipeline: str = ""
    """The source text of the plan."""
    plan: Plan | None = None
    """If present, the cassette can be replayed on its own."""
    plateau_test: bool = False
    waivers: tuple[Waiver, ...] = ()
    """The checks and stages that were skipped from the start."""
    user_request: str = ""
    artifact: JSONObject | None = None
    """The one that the run was started with."""


class ExchangeStep(
    Struct, frozen=True, tag_field="do", forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    after: Seconds = 0.0
    """Seconds to wait before this step."""


class Say(ExchangeStep, frozen=True, tag="say"):
    text: str


class WriteFile(ExchangeStep, frozen=True, tag="write"):
    path: NonEmpty
    text: str | None = None
    base64: str | None = None
    """Used instead of `text` for binary content."""
    executable: bool = False


class Append(ExchangeStep, frozen=True, tag="append"):
    path: NonEmpty
    text: str


class Edit(ExchangeStep, frozen=True, tag="edit"):
    path: NonEmpty
    old: NonEmpty
    new: str


class Delete(ExchangeStep, frozen=True, tag="delete"):
    path: NonEmpty


class Run(ExchangeStep, frozen=True, tag="run"):
    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    exit_code: int | None = None
    """The recorded exit status."""
    enforce: bool = True
    """Whether a replay must produce the same exit status."""


class WriteResult(ExchangeStep, frozen=True, tag="result"):
    value: dict[str, Any] | None = None
    text: str | None = None
    """Used instead of `value` if the agent didn't write an object."""


class WriteStatus(ExchangeStep, frozen=True, tag="status"):
    value: dict[str, Any] | None = None
    text: str | None = None


class WriteArtifact(ExchangeStep, frozen=True, tag="artifact"):
    value: dict[str, Any] | None = None
    text: str | None = None


class Sleep(ExchangeStep, frozen=True, tag="sleep"):
    seconds: Seconds


class End(ExchangeStep, frozen=True, tag="exit"):
    code: Annotated[int, Meta(ge=0, le=255)]


class Fail(ExchangeStep, frozen=True, tag="fail"):
    """Ends with a failure of that kind, regardless of exit status."""

    kind: FailureKind
    message: str
    exit_code: int | None = None


FileStep = WriteFile | Append | Edit | Delete
LeftStep = WriteResult | WriteStatus | WriteArtifact
"""What an agent leaves for the engine."""
AnyStep = Say | FileStep | Run | LeftStep | Sleep | End | Fail


class ExchangeOutcome(Struct, frozen=True):
    """The resulting event's type and data."""

    type: str
    data: dict[str, Any]


class RecordedAnswer(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An answer to a request of the run."""

    reason: NonEmpty
    """Why the run asked."""
    answer: str
    subject: str = ""
    """The name of the checkpoint, or the id of the agent's question."""
    by: str = ""
    text: str = ""
    waivers: tuple[Waiver, ...] = ()
    """The checks and stages that the person skipped with it."""


class RecordedHook(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A hook that was called."""

    id: NonEmpty
    delivery: str = ""
    """Tells calls at the same place apart."""


class Exchange(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    stage: NonEmpty
    iteration: Annotated[int, Meta(ge=0)]
    steps: tuple[AnyStep, ...] = ()
    attempt: Count | None = None
    """None: any attempt without a more specific exchange."""
    kind: ExchangeKind = ""
    """The iteration's work, its judgment, a queue check, a person's answer, a hook's, or the outcome of a
    check; empty: either of the first two."""
    node: str = ""
    """The stage's position in the pipeline, by kinds and ids; empty: any."""
    branch: str = ""
    """The provider whose branch it is, inside a parallel block; empty: any."""
    remaining: int | None = None
    """The number of tasks left in the queue."""
    answer: RecordedAnswer | None = None
    hook: RecordedHook | None = None
    check: str = ""
    """The name of the check, or what identifies its baseline. A replay runs it again."""
    provider: str = ""
    model: str = ""
    prompt_sha256: str = ""
    made: int | None = None
    """The attempt's number in the run, if earlier ones failed; of an answer, its number if the same request
    was opened before."""
    outcome: ExchangeOutcome | None = None
    notes: tuple[str, ...] = ()
    """What couldn't be recorded, and why."""

    @property
    def key(self) -> tuple[str, str, str, str, int, int | None, str]:
        return self.kind, self.node, self.branch, self.stage, self.iteration, self.attempt, self.about

    @property
    def about(self) -> str:
        """What an answer is about, which call of which hook it is, or which check."""
        if self.check:
            return self.check
        if self.hook:
            return f"{self.hook.id}:{self.hook.delivery}"
        if self.answer is None:
            return ""
        again = f":{self.made}" if self.made else ""
        return f"{self.answer.reason}:{self.answer.subject}{again}"


class ExchangeQuery(Struct, frozen=True):
    """The criteria for finding an exchange."""

    stage: str
    iteration: int
    attempt: int = 1
    kind: ExchangeKind = "work"
    node: str = ""
    branch: str = ""


class Cassette(Struct, frozen=True):
    header: Header
    exchanges: tuple[Exchange, ...]

    @property
    def commands(self) -> list[tuple[str, ...]]:
        """The commands that a replay runs, each once."""
        steps = (step for exchange in self.exchanges for step in exchange.steps)
        return list(dict.fromkeys(step.argv for step in steps if isinstance(step, Run)))

    @property
    def file_steps(self) -> dict[str, list[FileStep]]:
        """The steps that change files, by path."""
        found: dict[str, list[FileStep]] = {}
        for exchange in self.exchanges:
            for step in exchange.steps:
                if isinstance(step, FileStep):
                    found.setdefault(step.path, []).append(step)
        return found

    def find(self, query: ExchangeQuery) -> Exchange | None:
        """The matching exchange, or None; the most specific one if several match."""
        scores = [(_match_score(exchange, query), number) for number, exchange in enumerate(self.exchanges)]
        best = max(((score, -number) for score, number in scores if score is not None), default=None)
        return None if best is None else self.exchanges[-best[1]]


def _match_score(exchange: Exchange, query: ExchangeQuery) -> tuple[bool, bool, bool, bool] | None:
    if (exchange.stage, exchange.iteration) != (query.stage, query.iteration):
        return None
    if query.kind == "queue" and exchange.kind != "queue":
        return None
    # What an exchange leaves out fits any attempt, node or branch, so that one written by hand can be short.
    given = (exchange.attempt, exchange.node, exchange.branch, exchange.kind)
    expected = (query.attempt, query.node, query.branch, query.kind)
    if any(mine and mine != theirs for mine, theirs in zip(given, expected, strict=True)):
        return None
    return bool(given[0]), bool(given[1]), bool(given[2]), bool(given[3])


def encode_line(line: Header | Exchange) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def parse_cassette(text: str, name: str) -> Cassette:
    """Raises ProviderUnusable with every error, each with its line."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise _unusable([f"{name}:1: empty; the first line must be the header"])
    header = _header(*lines[0], name)
    problem = plan_problem(header.plan) if header.plan is not None else ""
    errors = [f"{name}:{lines[0][0]}: its plan is not valid: {problem}"] if problem else []
    exchanges: dict[tuple[Any, ...], Exchange] = {}
    for number, line in lines[1:]:
        try:
            exchange = parse_exchange(line)
        except ValueError as error:
            errors.append(f"{name}:{number}: {error}")
            continue
        if exchange.key in exchanges:
            errors.append(f"{name}:{number}: {_describe(exchange)} is already recorded on an earlier line")
        exchanges[exchange.key] = exchange
    if errors:
        raise _unusable(errors)
    return Cassette(header, tuple(exchanges.values()))


def _header(number: int, line: str, name: str) -> Header:
    try:
        # Before the other keys: those of a newer version would be reported as unknown.
        version = _decode(line, dict[str, Any]).get("version")
        if isinstance(version, int) and version > VERSION:
            raise _unusable(
                [f"{name}:{number}: cassette version {version} is not supported (newest: {VERSION})"]
            )
        return _decode(line, Header)
    except ValueError as error:
        expected = f'{{"format": "{FORMAT}", "version": {VERSION}}}'
        raise _unusable([f"{name}:{number}: {error}; the header must look like {expected}"]) from error


def parse_exchange(line: str | bytes) -> Exchange:
    """Raises ValueError with what is wrong."""
    exchange = _decode(line, Exchange)
    if exchange.iteration < 1 and exchange.kind in ("", "work", "judge"):
        raise ValueError("Expected `int` >= 1 - at `$.iteration`")
    if (exchange.remaining is None) == (exchange.kind == "queue"):
        raise ValueError("`remaining` is required for exchanges of kind `queue` and not allowed otherwise")
    if (exchange.answer is None) == (exchange.kind == "answer"):
        raise ValueError("`answer` is required for exchanges of kind `answer` and not allowed otherwise")
    if (exchange.hook is None) == (exchange.kind == "hook"):
        raise ValueError("`hook` is required for exchanges of kind `hook` and not allowed otherwise")
    if (not exchange.check) == (exchange.kind == "check"):
        raise ValueError("`check` is required for exchanges of kind `check` and not allowed otherwise")
    for index, step in enumerate(exchange.steps):
        _check_step(step, f"$.steps[{index}]")
    return exchange


def _check_step(step: AnyStep, where: str) -> None:
    # A cassette may have come from elsewhere, and a replay writes these files for real.
    match step:
        case WriteFile(path=path) | Append(path=path) | Edit(path=path) | Delete(path=path):
            if path.startswith("/") or ".." in path.split("/") or "\0" in path:
                raise ValueError(f"{path!r} is outside the workdir - at `{where}.path`")
            if name := protected_step(path):
                raise ValueError(f"{path!r}: a replay must not write below {name} - at `{where}.path`")
        case _:
            pass
    match step:
        case WriteFile(text=one, base64=other) if (one is None) == (other is None):
            raise ValueError(f"give either `text` or `base64`, not both - at `{where}`")
        case WriteResult() | WriteStatus() | WriteArtifact():
            if (step.value is None) == (step.text is None):
                raise ValueError(f"give either `value` or `text`, not both - at `{where}`")
        case _:
            pass


Decoded = TypeVar("Decoded")


def _decode(line: str | bytes, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(line, type=kind)
    except NOT_JSON as error:
        raise ValueError(str(error)) from error


def _describe(exchange: Exchange) -> str:
    which = f", attempt {exchange.attempt}" if exchange.attempt else ""
    return f"stage {exchange.stage!r}, iteration {exchange.iteration}{which}"


def _unusable(errors: list[str]) -> ProviderUnusable:
    return ProviderUnusable("\n".join(errors), hint="the format is described in docs/cassettes.md")
