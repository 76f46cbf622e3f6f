"""What one failed check reports: counts, signatures, the end of the output. Prompts quote it as data."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from agentforge.engine.checks.feedback import END_OF_OUTPUT, FEEDBACK_ROOM, end_of, size
from agentforge.engine.checks.parser import output_lines
from agentforge.model.check import CheckFailure, CheckOutcome
from agentforge.views.text import one_line

_NAME_CHARS: Final = 80

_RULE_CHARS: Final = 20
_RULE: Final = re.compile(rf"([-=_*#~])\1{{{_RULE_CHARS},}}")
"""A line that programs draw as wide as the terminal."""


class FailedCheck(Struct, frozen=True):
    name: str
    outcome: CheckOutcome
    output: bytes = b""
    """What the program printed; only the end is used."""


def check_feedback(failed: FailedCheck) -> str:
    """Half of the room at most for the failures, what is left for the output."""
    lines = [outcome_line(failed.name, failed.outcome)]
    lines += _fitting(map(_failure, failed.outcome.failures), FEEDBACK_ROOM // 2)
    missing = failed.outcome.failure_count - len(lines) + 1
    if missing > 0:
        lines.append(f"- and {missing:,} more")
    head = "\n".join(lines)
    tail = _tail(failed.output, FEEDBACK_ROOM - size(head) - len(END_OF_OUTPUT))
    return f"{head}{END_OF_OUTPUT}{tail}" if tail else head


def outcome_line(name: str, outcome: CheckOutcome) -> str:
    """`check 'test': fail, 5 passed, 2 failed, exit status 1`."""
    counts = outcome.counts
    numbers = [
        f"{number:,} {word}"
        for number, word in (
            (counts.passed, "passed"),
            (counts.failed, "failed"),
            (counts.errors, "errors"),
            (counts.skipped, "skipped"),
        )
        if number
    ]
    code = [] if outcome.exit_code is None else [f"exit status {outcome.exit_code}"]
    reason = [one_line(outcome.reason, 200)] if outcome.status in ("error", "timeout") else []
    return ", ".join((f"check {_name(name)!r}: {outcome.status}", *reason, *numbers, *code))


def _name(name: str) -> str:
    return one_line(name[:_NAME_CHARS], _NAME_CHARS)


def _failure(failure: CheckFailure) -> str:
    where = f" (line {failure.line})" if failure.line else ""
    return f"- {one_line(failure.signature, 240)}{where}"


def _fitting(lines: Iterable[str], room: int) -> list[str]:
    found: list[str] = []
    for line in lines:
        room -= size(line) + 1
        if room < 0:
            break
        found.append(line)
    return found


def _tail(output: bytes, room: int) -> str:
    """The last lines that fit, without escape codes."""
    text = "\n".join(output_lines(output[-4 * max(1, room) :]))
    return end_of(_RULE.sub(lambda found: found[1] * _RULE_CHARS, text), room)
