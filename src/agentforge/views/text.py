"""Formats untrusted text, durations and amounts for one line on a terminal."""

import re
import unicodedata
from collections.abc import Sequence
from typing import get_args

from agentforge.model.spending import SPENDING_CAP
from agentforge.model.state import LOST
from agentforge.model.task import TaskKind

_REPLACEMENT = "\ufffd"
MAX_LINE = 4096
"""The maximum length of a line without a limit of its own."""


def one_line(text: str, limit: int = MAX_LINE) -> str:
    """The text on one line, without control characters, so that an agent can't control the terminal."""
    # Most texts are one line already, which is quickly seen.
    if len(text) <= limit and text.isascii() and text.isprintable() and " ".join(text.split()) == text:
        return text
    # Cut first: an agent's text may be long. White space that is collapsed counts.
    head = text[: max(MAX_LINE, 4 * limit)]
    line = " ".join(printable(head).split())
    return shortened(line if len(head) == len(text) else f"{line}…", limit)


def printable(text: str) -> str:
    """White space becomes blanks; unprintable characters are replaced."""
    if text.isprintable():
        return text
    return "".join(" " if char.isspace() else char if char.isprintable() else _REPLACEMENT for char in text)


def shortened(text: str, limit: int) -> str:
    """Truncate to `limit` columns, with an ellipsis."""
    if width(text) <= limit:
        return text
    kept, used = [], 0
    for char in text:
        used += _columns(char)
        if used > limit - 1:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…" if limit > 0 else ""


def width(text: str) -> int:
    """The number of terminal columns."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def padded(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def span(seconds: float) -> str:
    """`0.4s`, `12s`, `3m 07s`, `2h 05m`, `3d 4h`."""
    if seconds < 0:
        seconds = 0.0
    # From there on it would be rounded to `10.0s`.
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours}h"


def duration_text(seconds: float, waited: float) -> str:
    """`22s`, or with the time in which a run was stopped: it waited for people, was paused or had failed."""
    shown = span(seconds - waited)
    return f"{shown}, stopped for {span(waited)}" if waited >= 1 else span(seconds)


def age(seconds: float) -> str:
    """The age in one unit, such as `5m ago`."""
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit} ago"
    return f"{whole}s ago"


def money(usd: float) -> str:
    return f"${usd:.2f}" if usd >= 0.1 else f"${usd:.4f}"


def cost(usd: float, unpriced: Sequence[str]) -> str:
    """`$0.02`, `$0.02 + unknown (gpt-5 reported none)`, or an empty string if nothing was spent."""
    parts = [money(usd)] if usd else []
    if unpriced:
        parts.append(f"unknown ({', '.join(one_line(model, 40) for model in unpriced)} reported none)")
    return " + ".join(parts)


REASONS = {
    **{f"{kind}{LOST}": f"a {kind} was lost repeatedly" for kind in get_args(TaskKind)},
    "all_loops_complete": "reached the end of the pipeline",
    "approval": "a result needs an approval",
    "approval_rounds": "a result was rejected in every round",
    "at_most_once": "an attempt may have partially run",
    "awaiting_approval": "an answer is needed",
    "attempts_lost": "attempts were lost repeatedly",
    "checkpoint": "a checkpoint needs an approval",
    "cycle_limit": "reached the maximum number of cycles",
    "frozen_files": "files that must stay as they are were changed repeatedly",
    "rollback": "what a stage changed can't be undone alone",
    "failure_cluster": "the same failure occurred repeatedly",
    "judge_lost": "the judge was lost repeatedly",
    "machine_shutdown": "the machine was shut down",
    "max_iterations": "reached the maximum number of iterations",
    "no_progress": "a stage makes no progress between visits",
    SPENDING_CAP: "a cap on spending was reached",
    "provider_limit": "a provider's limit resets too late",
    "question": "an agent has a question",
    "question_rounds": "an agent has asked repeatedly",
    "recoveries_without_progress": "it was recovered repeatedly without progress",
    "requested": "on request",
    "retries_exhausted": "a stage failed, and no retry is left",
    "runtime_limit": "reached the runtime limit",
    "signal_interrupt": "stopped by a signal, such as Ctrl-C",
    "verdict": "the verdict of a stage needs a decision",
    "hook_pause": "a hook paused the run",
    "hook_confirm": "a hook asks for confirmation",
    "hook_webhook_failed": "a webhook failed",
    "hook_script_failed": "the script of a hook failed",
    "hook_call_failed": "a hook function failed",
    "hook_lost": "the outcome of a hook is unknown",
    "hook_restarts": "hooks restarted a stage too often",
}


_ONE_COMPLETED = re.compile(r"Completed 1 iterations\b")


def reason_text(reason: str) -> str:
    """Why a run or a stage ended or paused, for people; the log has names for what the engine decides."""
    return one_line(REASONS.get(reason) or shown_reason(reason))


def shown_reason(reason: str) -> str:
    """The reason for programs; the log and state.json have the shell engine's "Completed 1 iterations"."""
    return _ONE_COMPLETED.sub("Completed 1 iteration", reason)


def request_text(what: str, reason: str) -> str:
    """`pause requested`, with the reason if there is one."""
    return f"{what} requested" if reason == "requested" else f"{what} requested: {reason_text(reason)}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 iteration`, `2 iterations`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
