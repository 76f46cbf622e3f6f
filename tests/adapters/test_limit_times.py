"""When a limit ends, parsed from the messages of agents' CLIs."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from agentforge.adapters.cli_agents.failures import limit_ends

NOW = datetime(2026, 11, 15, 9, 5, 30, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=1))


def at(day: int, hour: int, minute: int = 0, *, month: int = 11, year: int = 2026) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Claude AI usage limit reached|1794740729", datetime(2026, 11, 15, 11, 5, 29, tzinfo=UTC)),
        ('{"type":"usage_limit_reached","resets_at":1794740729}', datetime.fromtimestamp(1794740729, UTC)),
        ('{"resets_in_seconds": 7200}', NOW + timedelta(hours=2)),
        ("You've hit your 5-hour limit · resets 11:05am (UTC)", at(15, 11, 5)),
        ("You've hit your limit · resets 3pm (America/Bogota)", at(15, 20)),
        ("Your limit will reset at 8am (UTC).", at(16, 8)),
        ("You're out of extra usage · resets 1pm (UTC)", at(15, 13)),
        ("limit · resets Nov 20, 3pm (UTC)", at(20, 15)),
        ("limit · resets Dec 1 at 12:30am (UTC)", at(1, 0, 30, month=12)),
        ("or try again at 11:05 AM.", at(15, 10, 5)),
        ("or try again at Nov 19th, 2026 12:30 PM.", at(19, 11, 30)),
        ("try again in 3 days 6 hours 57 minutes.", NOW + timedelta(days=3, hours=6, minutes=57)),
        ("Please try again in 11.054s.", NOW + timedelta(seconds=11.054)),
        ("Please try again in 250ms.", NOW + timedelta(milliseconds=250)),
        ("Please retry in 41.5s.", NOW + timedelta(seconds=41.5)),
        ("Your quota will reset after 2h30m10s.", NOW + timedelta(hours=2, minutes=30, seconds=10)),
        ("try again in 2 hours and 5 minutes", NOW + timedelta(hours=2, minutes=5)),
    ],
)
def test_times_that_clis_name(text: str, ends: datetime) -> None:
    assert limit_ends(text, NOW, BERLIN) == ends


@pytest.mark.parametrize(
    "text",
    [
        "",
        "try again in a moment",
        "Please wait and try again later.",
        "resets 3pm (Nowhere/Land)",
        "resets Feb 30 at 3pm (UTC)",
        "try again in 99999999 days",
        '{"resets_in_seconds": 99999999999999999999}',
        "try again in ... s",
        "try again at Nov 10th, 2026 12:30 PM",
    ],
)
def test_texts_without_a_future_time(text: str) -> None:
    assert limit_ends(text, NOW, BERLIN) is None


def test_without_a_clock_only_absolute_times_are_known() -> None:
    assert limit_ends("try again in 2 hours", None) is None
    assert limit_ends("resets 3pm (UTC)", None) is None
    assert limit_ends("limit reached|1794740729", None) is not None


def test_at_the_turn_of_the_year_the_month_is_the_next_one() -> None:
    now = datetime(2026, 12, 30, 12, tzinfo=UTC)
    assert limit_ends("resets Jan 2 at 3pm (UTC)", now) == at(2, 15, month=1, year=2027)
