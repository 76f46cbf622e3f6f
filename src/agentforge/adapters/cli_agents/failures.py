"""Classifies the errors of an agent's CLI by HTTP status and by text, and finds out when a limit ends."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from agentforge.adapters.cli_agents.stream import ReportedError
from agentforge.model.failure import LIMITS, Failure, FailureKind
from agentforge.ports.provider import Exit

_EPOCH = re.compile(r"limit reached\|(\d{9,11})\b|\"?resets_?at\"?[:=]\s*(\d{9,11})\b", re.IGNORECASE)
_SECONDS = re.compile(r"\"?resets_in_seconds\"?[:=]\s*(\d+)", re.IGNORECASE)
_SPAN = re.compile(
    r"(?:try again|retry|resets?|available again) (?:in|after) "
    r"((?:[\d.]+\s*[a-z]+[,\s]*(?:and )?)+)",
    re.IGNORECASE,
)
_PART = re.compile(r"([\d.]+)\s*(d|h|ms|m|s)[a-z]*", re.IGNORECASE)
_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_CLOCK = re.compile(
    r"(?:try again|resets?) (?:at |on )?"
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]* (?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,? (?P<year>\d{4}))?(?:,| at)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]m)\b"
    r"(?: \((?P<zone>[A-Za-z_/+\-0-9]+)\))?",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# No limit lasts longer; a longer one was misread.
_MAX_LIMIT = timedelta(days=32)
K = FailureKind
STATUSES: Mapping[int, FailureKind] = {
    401: K.PROVIDER_AUTH,
    402: K.PROVIDER_QUOTA,
    403: K.PROVIDER_AUTH,
    408: K.PROVIDER_UNREACHABLE,
    429: K.PROVIDER_RATE_LIMITED,
    **dict.fromkeys((500, 502, 503, 504, 529), K.PROVIDER_OVERLOADED),
}
NOT_FOUND = 404
_STATUS_IN_TEXT = re.compile(
    r"(?:API Error: |status[: ]+|status code:? |rejected \(|HTTP |\"code\":\s*)([45]\d\d)\b", re.IGNORECASE
)


def from_epoch(seconds: int) -> datetime | None:
    """The time, or None if it is out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def limit_ends(text: str, now: datetime | None, here: tzinfo | None = None) -> datetime | None:
    """The end of a limit as stated in the text, or None. Durations and times of day need `now`; a time
    without a zone is in the machine's zone, or in `here`."""
    found = _EPOCH.search(text)
    if found:
        return from_epoch(int(found[1] or found[2]))
    if now is None:
        return None
    ends = _after_span(text, now) or _by_the_clock(text, now, here)
    return ends if ends and timedelta() < ends - now <= _MAX_LIMIT else None


def _after_span(text: str, now: datetime) -> datetime | None:
    if found := _SECONDS.search(text):
        seconds = float(found[1])
    else:
        span = _SPAN.search(text)
        parts = _PART.findall(span[1] if span else "")
        try:
            seconds = sum(float(count) * _UNITS[unit.lower()] for count, unit in parts)
        except ValueError:
            return None  # Such as `1.2.3 s`.
    return now + timedelta(seconds=seconds) if 0 < seconds <= _MAX_LIMIT.total_seconds() else None


def _by_the_clock(text: str, now: datetime, here: tzinfo | None) -> datetime | None:
    found = _CLOCK.search(text)
    if found is None:
        return None
    try:
        there = now.astimezone(ZoneInfo(found["zone"]) if found["zone"] else here)
        hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "pm" else 0)
        ends = there.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        if found["month"]:
            month = _MONTHS.index(found["month"].lower()) + 1
            ends = ends.replace(year=int(found["year"] or there.year), month=month, day=int(found["day"]))
            if not found["year"] and ends < there:
                ends = ends.replace(year=there.year + 1)
        elif ends <= there:
            ends += timedelta(days=1)
    except (KeyError, ValueError, OSError):
        # Unknown zone or invalid date.
        return None
    return ends.astimezone(UTC)


FailureTable = Sequence[tuple[str, FailureKind]]


BEFORE_STATUS: FailureTable = (
    # A quota error has status 400, 403 or 429, so the text is more specific.
    (r"usage.{0,3}limit|hit your .{0,30}limit|limit reached\|", K.PROVIDER_QUOTA),
    (r"insufficient.quota|credit balance is too low|out of (extra usage|credits)", K.PROVIDER_QUOTA),
    (r"exceeded your current quota|quota exceeded|exhausted your daily quota", K.PROVIDER_QUOTA),
    (r"spend(ing)? limit|billing.{0,20}(limit|hard)", K.PROVIDER_QUOTA),
    (r"issue with the selected model|model.{0,60}(not found|not exist|not supported)", K.PROVIDER_MISSING),
    (r"(no such|unknown|unsupported|invalid) model\b", K.PROVIDER_MISSING),
)
AFTER_STATUS: FailureTable = (
    (r"not logged in|log ?in again|please (run )?/?log ?in|invalid (x-)?api.key", K.PROVIDER_AUTH),
    (r"failed to authenticate|authentication|unauthori[sz]ed|invalid auth method", K.PROVIDER_AUTH),
    (r"missing environment variable|must specify the \w+ environment variable", K.PROVIDER_AUTH),
    (r"(oauth|access|refresh) token.{0,40}(expired|revoked|invalid)", K.PROVIDER_AUTH),
    (r"rate.?limit|too many requests|resource.?exhausted", K.PROVIDER_RATE_LIMITED),
    (
        r"overloaded|high demand|at capacity|exhausted your capacity|internal server error",
        K.PROVIDER_OVERLOADED,
    ),
    (r"service unavailable|bad gateway|gateway time-?out", K.PROVIDER_OVERLOADED),
    (
        r"connection (refused|reset|failed|error|lost|closed)|econn\w+|enotfound|eai_again",
        K.PROVIDER_UNREACHABLE,
    ),
    (r"fetch failed|error sending request|could not resolve|dns|network", K.PROVIDER_UNREACHABLE),
    (r"stream (closed|disconnected|ended without)|socket hang up|unable to connect", K.PROVIDER_UNREACHABLE),
    (r"timed? ?out|timeout", K.PROVIDER_TIMEOUT),
)


def failure_of(error: ReportedError, exit: Exit, title: str, own: FailureKind | None) -> Failure | None:
    """The failure, or None if neither status nor text is known. `own` is the kind by the CLI's own patterns,
    which take precedence."""
    text = error.message
    found = _STATUS_IN_TEXT.search(text)
    status = error.status or (int(found[1]) if found else 0)
    is_unknown_model = status == NOT_FOUND and "model" in text.lower()
    by_status = K.PROVIDER_MISSING if is_unknown_model else STATUSES.get(status)
    # The most specific source first: a status says less than a message about a quota or a model, and more
    # than the words of other messages.
    kind = error.kind or own or _by_text(text, BEFORE_STATUS) or by_status or _by_text(text, AFTER_STATUS)
    if kind is None:
        return None
    ends = error.resets_at or limit_ends(text, exit.ended_at) if kind in LIMITS else None
    return Failure(kind, f"{title}: {text}", exit.exit_code, ends)


def _by_text(text: str, table: FailureTable) -> FailureKind | None:
    return next((kind for words, kind in table if re.search(words, text, re.IGNORECASE)), None)
