"""Patterns of the operator `matches`: a small dialect of regular expressions whose matching takes time in
proportion to the lengths of pattern and text. Python's `re` backtracks: a pattern can take it years.

Supported: characters, `.`, `[a-z]`, `[^a-z]`, `\\d \\w \\s \\D \\W \\S`, `( )`, `|`, `*`, `+`, `?`, `^`, `$`.
A pattern is compiled to a machine of states, and all its states are followed at once.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NoReturn

from msgspec import Struct

MAX_PATTERN = 200
"""Characters."""
_MAX_GROUPS = 20
"""How deep groups are nested."""
_REPEATS = "*+?"
_SPECIAL = frozenset("()[]{}|*+?^$.\\")

Test = Callable[[str], bool]
_CLASSES: dict[str, Test] = {
    "d": lambda char: "0" <= char <= "9",
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
}
_ALL_CLASSES: dict[str, Test] = _CLASSES | {
    name.upper(): lambda char, test=test: not test(char) for name, test in _CLASSES.items()
}


class PatternRefused(Exception):
    """The pattern is invalid."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message, self.offset = message, offset


# The machine is Thompson's: each character of a pattern is a state, and `*`, `+`, `?` and `|` are states that
# lead to others without consuming a character. At each position of the text, the set of states that can be
# reached holds each state once, so that matching takes at most (states × characters) steps. A backtracking
# matcher follows one way after the other, and `(a|a)*b` has twice as many ways for each further `a`.
# Conditions come from repositories, and are evaluated in the engine's own process: a pattern must not be able
# to stop it. Counted repetition (`a{3}`) is left out, as it multiplies states.


class _State(Struct):
    """A state of the machine: it consumes a character, or leads to others without one."""

    test: Test | None = None
    """Which character it consumes."""
    edge: str = ""
    """`^` or `$`: only passed at the start or at the end."""
    then: "list[_State]" = []
    final: bool = False


class _Part(Struct):
    """Some states, from the first to the last."""

    first: _State
    last: _State


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text. Raises PatternRefused."""
    start = compiled(pattern)
    active: list[_State] = []
    for position in range(len(text) + 1):
        reached = _followed([*active, start], position == 0, position == len(text))
        if any(state.final for state in reached):
            return True
        if position < len(text):
            char = text[position]
            active = [then for state in reached if state.test and state.test(char) for then in state.then]
    return False


def _followed(states: Iterable[_State], at_start: bool, at_end: bool) -> list[_State]:
    """These states and those that they lead to without consuming a character, each once."""
    found: dict[int, _State] = {}
    waiting = list(states)
    while waiting:
        state = waiting.pop()
        if id(state) in found or (state.edge == "^" and not at_start) or (state.edge == "$" and not at_end):
            continue
        found[id(state)] = state
        if state.test is None:
            waiting += state.then
    return list(found.values())


@lru_cache(maxsize=64)
def compiled(pattern: str) -> _State:
    """The machine's first state. Raises PatternRefused."""
    if len(pattern) > MAX_PATTERN:
        message = f"the pattern has {len(pattern):,} characters; the maximum is {MAX_PATTERN}"
        raise PatternRefused(message, 0)
    reader = _PatternReader(pattern)
    whole = reader.alternatives(0)
    if reader.position < len(pattern):
        reader.refuse("`)` has no `(` before it")
    whole.last.final = True
    return whole.first


class _PatternReader:
    """Reads a pattern by recursive descent."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.position = 0

    def refuse(self, message: str, at: int | None = None) -> NoReturn:
        raise PatternRefused(message, self.position if at is None else at)

    def alternatives(self, depth: int) -> _Part:
        parts = [self._sequence(depth)]
        while self._next == "|":
            self.position += 1
            parts.append(self._sequence(depth))
        if len(parts) == 1:
            return parts[0]
        last = _State()
        for part in parts:
            part.last.then.append(last)
        return _Part(_State(then=[part.first for part in parts]), last)

    @property
    def _next(self) -> str:
        return self._pattern[self.position : self.position + 1]

    def _sequence(self, depth: int) -> _Part:
        first = last = _State()
        while self._next not in ("", "|", ")"):
            part = self._repeated(depth)
            last.then.append(part.first)
            last = part.last
        return _Part(first, last)

    def _repeated(self, depth: int) -> _Part:
        part = self._single(depth)
        sign = self._next
        if sign == "{":
            self.refuse("`{…}` is not supported in a pattern; write the part several times, or `\\{`")
        if not sign or sign not in _REPEATS:
            return part
        self.position += 1
        if self._next and self._next in _REPEATS:
            self.refuse(f"`{self._next}` follows `{sign}`")
        last = _State()
        part.last.then += [last] if sign == "?" else [last, part.first]
        return _Part(part.first if sign == "+" else _State(then=[part.first, last]), last)

    def _single(self, depth: int) -> _Part:
        char, start = self._next, self.position
        if char in _REPEATS or char == "{":
            self.refuse(f"`{char}` has nothing to repeat")
        self.position += 1
        if char == "(":
            return self._group(start, depth)
        if char in ("^", "$"):
            state = _State(edge=char)
            return _Part(state, state)
        last = _State()
        return _Part(_State(test=self._test(char, start), then=[last]), last)

    def _group(self, start: int, depth: int) -> _Part:
        if depth == _MAX_GROUPS:
            self.refuse(f"groups are nested more than {_MAX_GROUPS} levels deep", start)
        if self._next == "?":
            self.refuse("`(?` is not supported in a pattern; groups are `(…)`", start)
        part = self.alternatives(depth + 1)
        if not self._next:
            self.refuse("`(` is not closed", start)
        self.position += 1
        return part

    def _test(self, char: str, start: int) -> Test:
        if char == ".":
            return lambda _: True
        if char == "[":
            return self._set(start)
        if char == "\\":
            return self._escaped(start)
        return char.__eq__

    def _escaped(self, start: int) -> Test:
        """A class such as `\\d`, or a character that has no special meaning then."""
        name = self._next
        self.position += 1
        if name in _ALL_CLASSES:
            return _ALL_CLASSES[name]
        if not name or (name not in _SPECIAL and name not in "-/\"'"):
            self.refuse(f"`\\{name}` is not supported in a pattern", start)
        return name.__eq__

    def _set(self, start: int) -> Test:
        negated = self._next == "^"
        self.position += negated
        tests: list[Test] = []
        while self._next != "]":
            if not self._next:
                self.refuse("`[` is not closed", start)
            tests.append(self._member())
        self.position += 1
        if not tests:
            self.refuse("`[]` is empty", start)
        return lambda char: any(test(char) for test in tests) != negated

    def _member(self) -> Test:
        """A character, a class or a range."""
        start, low = self.position, self._next
        self.position += 1
        if low == "\\":
            return self._escaped(start)
        following = self._pattern[self.position : self.position + 2]
        if following[:1] != "-" or following[1:] in ("", "]"):
            return low.__eq__
        high = following[1]
        self.position += 2
        if high in "\\[" or high < low:
            self.refuse(f"`{low}-{high}` is not a range", start)
        return lambda char: low <= char <= high
