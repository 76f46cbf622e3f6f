"""The requests that the server received, for assertions."""

import threading
import time
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from agentforge.testing.model_server.wire import JSON, Reply


class SeenRequest(Struct, frozen=True):
    """One request and its outcome."""

    number: int
    method: str
    path: str
    """Without the script and the run."""
    headers: dict[str, str]
    """By names in lower case."""
    script: str = ""
    run: str = ""
    format: str = ""
    """The wire format; empty if the request isn't a call of the model."""
    model: str = ""
    streams: bool = False
    tools: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    replies: tuple[Reply, ...] = ()
    results: tuple[str, ...] = ()
    """What the client's tools returned."""
    is_side: bool = False
    step: int = 0
    calls: tuple[str, ...] = ()
    """The tools that the response calls."""
    status: int = 0
    """0 until there is a response."""
    ended: str = ""
    """`answered`, `cut`, `client gone`, `closed` with the server, or the error in the request."""
    body: JSON | None = field(default=None)
    """Only if the server keeps bodies."""

    @property
    def prompt_tail(self) -> str:
        return "\n".join(self.prompts)[-500:]


class Requests:
    """All requests in order of arrival; thread-safe."""

    def __init__(self) -> None:
        self._all: list[SeenRequest] = []
        self._counted: dict[tuple[str, str], int] = {}
        self._changed = threading.Condition()

    def add(self, method: str, path: str, headers: dict[str, str]) -> int:
        with self._changed:
            self._all.append(SeenRequest(len(self._all), method, path, headers))
            self._changed.notify_all()
            return len(self._all) - 1

    def note(self, number: int, **changes: object) -> None:
        with self._changed:
            self._all[number] = replace(self._all[number], **changes)
            self._changed.notify_all()

    def count(self, script: str, run: str) -> int:
        """Count a request of the run, and return its number; side requests aren't counted."""
        with self._changed:
            self._counted[script, run] = number = self._counted.get((script, run), 0) + 1
            return number

    def all(self) -> tuple[SeenRequest, ...]:
        with self._changed:
            return tuple(self._all)

    def wait_for(self, matches: Callable[[SeenRequest], bool], seconds: float) -> SeenRequest:
        until = time.monotonic() + seconds
        with self._changed:
            while True:
                for seen in self._all:
                    if matches(seen):
                        return seen
                if not self._changed.wait(until - time.monotonic()):
                    raise TimeoutError(
                        f"no matching request within {seconds:g} s ({len(self._all)} requests in total)"
                    )
