"""What one failed check reports: counts, signatures, the end of the output. Prompts quote it as data."""

import re
from typing import Final

from msgspec import Struct

from agentforge.engine.checks.feedback import END_OF_OUTPUT, FEEDBACK_ROOM, end_of, size
from agentforge.engine.checks.output import output_lines
from agentforge.model.check import CheckOutcome
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
    room = FEEDBACK_ROOM // 2
    for failure in failed.outcome.failures:
        where = f" (line {failure.line})" if failure.line else ""
        line = f"- {one_line(failure.signature, 240)}{where}"
        room -= size(line) + 1
        if room < 0:
            break
        lines.append(line)
    missing = failed.outcome.failure_count - len(lines) + 1
    if missing > 0:
        lines.append(f"- and {missing:,} more")
    head = "\n".join(lines)
    room = FEEDBACK_ROOM - size(head) - len(END_OF_OUTPUT)
    # More than fits, as escape codes and rules are shortened; not all, as the output may be long.
    output = "\n".join(output_lines(failed.output[-4 * max(1, room) :]))
    tail = end_of(_RULE.sub(lambda found: found[1] * _RULE_CHARS, output), room)
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
    return ", ".join(
        (f"check {one_line(name[:_NAME_CHARS], _NAME_CHARS)!r}: {outcome.status}", *reason, *numbers, *code)
    )
