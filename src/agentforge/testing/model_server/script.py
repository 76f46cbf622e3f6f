"""The behavior of the model, as plain data, and the built-in scripts."""

import sys
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

FOREVER = sys.maxsize


class Write(Struct, frozen=True, tag="write", tag_field="do"):
    """Write a file with the tool that the client offers for it."""

    path: str
    content: str


class Shell(Struct, frozen=True, tag="shell", tag_field="do"):
    command: str


class Call(Struct, frozen=True, tag="call", tag_field="do"):
    """Call a tool by its name."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


Action = Write | Shell | Call


class Turn(Struct, frozen=True):
    text: str = ""
    actions: tuple[Action, ...] = ()
    """The calls of one response; a client may run them concurrently."""


class Rule(Struct, frozen=True):
    """Turns for prompts that match; the latest prompt that matches any rule decides."""

    matches: str
    """A regular expression, searched anywhere in the prompt."""
    turns: tuple[Turn, ...]


class Fault(Struct, frozen=True):
    """An error response."""

    status: int
    times: int = FOREVER
    after: int = 0
    """The number of requests of the run before the first fault."""
    retry_after: float | None = None
    headers: dict[str, str] = field(default_factory=dict)
    type: str = ""
    """The error type in the wire format; empty for the usual one of the status."""
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    """More members of the error object, such as OpenAI's `code` and `resets_at`."""


class Tokens(Struct, frozen=True):
    """The usage in each response, as the wire format counts it: cached tokens are part of the input, except
    for Anthropic, which counts them separately."""

    input: int = 1000
    output: int = 50
    cached: int = 0


class Script(Struct, frozen=True):
    turns: tuple[Turn, ...] = ()
    rules: tuple[Rule, ...] = ()
    aside: str = "A title"
    """The response to requests without tools while the script acts."""
    faults: tuple[Fault, ...] = ()
    """The first one that applies to a request is the response."""
    delay: float = 0.0
    """Seconds before the first byte."""
    drip: float = 0.0
    """Seconds between two events of a stream."""
    cuts: int = 0
    """The number of responses to cut in the middle, closing the connection."""
    cuts_neatly: bool = False
    """A cut response is complete to HTTP; only its last events are missing."""
    hang: Literal["no", "before", "within"] = "no"
    """`before`: never respond; `within`: start a response and never finish it. The connection stays open."""
    usage: Tokens = Tokens()
    values: dict[str, str] = field(default_factory=lambda: {"result": "result.json"})
    """Default values of `{name}` in actions."""

    @property
    def every_turn(self) -> tuple[Turn, ...]:
        return self.turns + tuple(turn for rule in self.rules for turn in rule.turns)

    @property
    def acts(self) -> bool:
        return any(turn.actions for turn in self.every_turn)


RESULT = '{"summary": "hello.txt is written", "decision": "stop", "reason": "done"}\n'

WRITE = Script(
    (
        Turn("I write hello.txt.", (Shell("echo 'hello from the scripted model' > hello.txt"),)),
        Turn("Now the result.", (Write("{result}", RESULT),)),
        Turn("Both files are written."),
    )
)


def refusing(status: int, **more: float) -> Script:
    return replace(WRITE, faults=(Fault(status, **more),))  # type: ignore[arg-type]


SCRIPTS: dict[str, Script] = {
    "write": WRITE,
    "text": Script((Turn("Only text, and no tools."),)),
    "bad-request": refusing(400),
    "unauthorised": refusing(401),
    "forbidden": refusing(403),
    "not-found": refusing(404),
    "rate-limited": refusing(429, retry_after=1),
    "rate-limited-twice": refusing(429, times=2, retry_after=1),
    "broken": refusing(500),
    "broken-twice": refusing(500, times=2),
    "overloaded": refusing(529),
    "slow": replace(WRITE, delay=60.0),
    "dripping": replace(WRITE, drip=0.5),
    "cut-twice": replace(WRITE, cuts=2),
    "cut": replace(WRITE, cuts=FOREVER),
    "hang": replace(WRITE, hang="before"),
    "hang-within": replace(WRITE, hang="within"),
}
