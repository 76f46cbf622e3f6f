"""What the model says and does, and what goes wrong: plain data, also as JSON."""

import sys
from typing import Any, Literal

from msgspec import Struct, field

FOREVER = sys.maxsize


class Write(Struct, frozen=True, tag="write", tag_field="do"):
    """Write a file, by whatever tool there is for it."""

    path: str
    content: str


class Shell(Struct, frozen=True, tag="shell", tag_field="do"):
    command: str


class Call(Struct, frozen=True, tag="call", tag_field="do"):
    """A tool by its own name."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


Action = Write | Shell | Call


class Turn(Struct, frozen=True):
    text: str = ""
    actions: tuple[Action, ...] = ()
    """Calls of one answer: a client may run them at once."""


class Rule(Struct, frozen=True):
    """Other turns where a prompt matches; the latest prompt that matches any rule decides."""

    matches: str
    """A regular expression, found anywhere in the prompt."""
    turns: tuple[Turn, ...]


class Fault(Struct, frozen=True):
    """An answer that isn't one."""

    status: int
    times: int = FOREVER
    after: int = 0
    """So many requests of the run are let through first."""
    retry_after: float | None = None
    headers: dict[str, str] = field(default_factory=dict)
    type: str = ""
    """As the wire format names it; empty: what the status is usually called there."""
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    """More members of the error object, such as OpenAI's `code` and `resets_at`."""


class Tokens(Struct, frozen=True):
    """What each answer says it used, as the wire format counts: what was cached is part of the input, except
    for Anthropic, which counts it apart."""

    input: int = 1000
    output: int = 50
    cached: int = 0


class Script(Struct, frozen=True):
    turns: tuple[Turn, ...] = ()
    rules: tuple[Rule, ...] = ()
    aside: str = "A title"
    """The answer to requests that offer no tools while the script acts."""
    faults: tuple[Fault, ...] = ()
    """The first that applies to a request is its answer."""
    delay: float = 0.0
    """Seconds before the first byte."""
    drip: float = 0.0
    """Seconds between two events of a stream."""
    cuts: int = 0
    """So many answers end in the middle, with the connection."""
    cuts_neatly: bool = False
    """A cut answer looks complete to HTTP, and only its last events are missing."""
    hang: Literal["no", "before", "within"] = "no"
    """Never answer, or begin an answer and never go on; the connection stays open."""
    usage: Tokens = Tokens()
    values: dict[str, str] = field(default_factory=lambda: {"result": "result.json"})
    """What `{name}` in an action stands for where the prompt doesn't say."""

    @property
    def every_turn(self) -> tuple[Turn, ...]:
        return self.turns + tuple(turn for rule in self.rules for turn in rule.turns)

    @property
    def acts(self) -> bool:
        return any(turn.actions for turn in self.every_turn)
