"""When a limit ends, from the words in which agents' CLIs say it."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

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
# No plan's limit lasts longer; what says more was misread.
_LONGEST = timedelta(days=32)


def limit_ends(text: str, now: datetime | None, here: tzinfo | None = None) -> datetime | None:
    """The time that the text names. Spans and times of the day need to know `now`; a time without a zone is
    that of the machine, or of `here`."""
    found = _EPOCH.search(text)
    if found:
        return datetime.fromtimestamp(int(found[1] or found[2]), UTC)
    if now is None:
        return None
    ends = _after_span(text, now) or _by_the_clock(text, now, here)
    return ends if ends and timedelta() < ends - now <= _LONGEST else None


def _after_span(text: str, now: datetime) -> datetime | None:
    found = _SECONDS.search(text)
    seconds = float(found[1]) if found else _span(text)
    return now + timedelta(seconds=seconds) if 0 < seconds <= _LONGEST.total_seconds() else None


def _span(text: str) -> float:
    span = _SPAN.search(text)
    try:
        return sum(
            float(count) * _UNITS[unit.lower()] for count, unit in _PART.findall(span[1] if span else "")
        )
    except ValueError:
        return 0.0


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
        # No such zone, or no such day.
        return None
    return ends.astimezone(UTC)
