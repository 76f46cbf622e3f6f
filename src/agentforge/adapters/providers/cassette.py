"""The cassette: a recorded session as JSON lines, a header and then one exchange a line.

The format is described in docs/cassettes.md. Here it is read and checked; the player acts on it.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from agentforge.model.errors import ProviderUnusable

FORMAT = "agentforge-cassette"
VERSION = 1

Seconds = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
NonEmpty = Annotated[str, Meta(min_length=1)]


class Header(Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["agentforge-cassette"]
    version: int
    name: str = ""
    description: str = ""


class Step(Struct, frozen=True, tag_field="do", forbid_unknown_fields=True, kw_only=True):
    after: Seconds = 0.0
    """Seconds to wait before it."""


class Say(Step, frozen=True, tag="say"):
    text: str


class Write(Step, frozen=True, tag="write"):
    path: NonEmpty
    text: str


class Append(Step, frozen=True, tag="append"):
    path: NonEmpty
    text: str


class Edit(Step, frozen=True, tag="edit"):
    path: NonEmpty
    old: NonEmpty
    new: str


class Delete(Step, frozen=True, tag="delete"):
    path: NonEmpty


class Run(Step, frozen=True, tag="run"):
    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    exit_code: int | None = None
    """How it ended when it was recorded."""
    enforce: bool = True
    """Whether it must end like that again."""


class WriteResult(Step, frozen=True, tag="result"):
    value: dict[str, Any]


class WriteStatus(Step, frozen=True, tag="status"):
    value: dict[str, Any]


class Sleep(Step, frozen=True, tag="sleep"):
    seconds: Seconds


class End(Step, frozen=True, tag="exit"):
    code: Annotated[int, Meta(ge=0, le=255)]


AnyStep = Say | Write | Append | Edit | Delete | Run | WriteResult | WriteStatus | Sleep | End


class Exchange(Struct, frozen=True, forbid_unknown_fields=True):
    stage: NonEmpty
    iteration: Count
    steps: tuple[AnyStep, ...]
    attempt: Count | None = None
    """Nothing: any attempt that has no exchange of its own."""

    @property
    def key(self) -> tuple[str, int, int | None]:
        return self.stage, self.iteration, self.attempt


class Cassette(Struct, frozen=True):
    header: Header
    exchanges: tuple[Exchange, ...]

    def find(self, stage: str, iteration: int, attempt: int) -> Exchange | None:
        by_key = {exchange.key: exchange for exchange in self.exchanges}
        return by_key.get((stage, iteration, attempt)) or by_key.get((stage, iteration, None))


def load_cassette(path: str) -> Cassette:
    """Raises ProviderUnusable with every error, each with its line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ProviderUnusable(
            f"cassette {path} can't be read: {why}", hint="correct `cassette` in the provider's config"
        ) from error
    return parse_cassette(text, path)


def parse_cassette(text: str, name: str) -> Cassette:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise _unusable([f"{name}:1: empty; the first line must be the header"])
    header = _header(*lines[0], name)
    errors: list[str] = []
    exchanges: dict[tuple[str, int, int | None], Exchange] = {}
    for number, line in lines[1:]:
        try:
            exchange = _exchange(line)
        except ValueError as error:
            errors.append(f"{name}:{number}: {error}")
            continue
        if exchange.key in exchanges:
            errors.append(f"{name}:{number}: {_called(exchange)} was already recorded above")
        exchanges[exchange.key] = exchange
    if errors:
        raise _unusable(errors)
    return Cassette(header, tuple(exchanges.values()))


def _header(number: int, line: str, name: str) -> Header:
    try:
        version = _decode(line, dict[str, Any]).get("version")
        if isinstance(version, int) and version > VERSION:
            raise _unusable([f"{name}:{number}: cassette version {version} is newer than {VERSION}"])
        return _decode(line, Header)
    except ValueError as error:
        expected = f'{{"format": "{FORMAT}", "version": {VERSION}}}'
        raise _unusable([f"{name}:{number}: {error}; the header is like {expected}"]) from error


def _exchange(line: str) -> Exchange:
    exchange = _decode(line, Exchange)
    for index, step in enumerate(exchange.steps):
        match step:
            case Write(path=path) | Append(path=path) | Edit(path=path) | Delete(path=path):
                if path.startswith("/") or ".." in path.split("/") or "\0" in path:
                    raise ValueError(f"{path!r} leads out of the workdir - at `$.steps[{index}].path`")
            case _:
                pass
    return exchange


Decoded = TypeVar("Decoded")


def _decode(line: str, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _called(exchange: Exchange) -> str:
    which = f", attempt {exchange.attempt}" if exchange.attempt else ""
    return f"stage {exchange.stage!r}, iteration {exchange.iteration}{which}"


def _unusable(errors: list[str]) -> ProviderUnusable:
    return ProviderUnusable("\n".join(errors), hint="the format is described in docs/cassettes.md")
