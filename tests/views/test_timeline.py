"""The timeline of a run: its spans and its waits in order, what is drawn of them, and where."""

from datetime import datetime, timedelta
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, block, event, plan_of
from tests.engine.plans import stage as stage_of
from tests.engine.test_decide_caps import capped, priced, told
from tests.views.item_runs import PLAN, ItemStory, at
from tests.views.test_spans import whole
from tests.views.test_work import Story

from agentforge.model import facts as f
from agentforge.model.cursor import Destination
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.state import Spending
from agentforge.views.lines.timeline import timeline_count, timeline_lines, timeline_text
from agentforge.views.record import RunRecord, record_of
from agentforge.views.timeline import MAX_BELOW, MAX_ROWS, TimelineRow, drawn_rows, timeline_json, timeline_of
from agentforge.views.timeline_picture import timeline_svg
from agentforge.views.timeline_scale import Scale

HERE = at("0", 1)
ASKED = f.RequestOpened("r-1", "approval", "0", "approval", "Approve it?", ("approve", "reject"))
ANSWERED = f.RequestAnswered("r-1", "approve", "dana")
LIMIT = f.LimitMet(1, "claude", 0, NOON, NOON, "5-hour limit")
FAILED = f.ErrorOccurred(FailureKind.PROVIDER_CRASHED, "it died", "plan", 1)


def rows(story: Story) -> list[TimelineRow]:
    return timeline_of(story.fold)


def row(began: float, ended: float, type: str = "attempt", depth: int = 1, **more: object) -> TimelineRow:
    about = {"id": f"{type} {began}", "parent": None, "name": type, "is_over": True, **more}
    times = {"started_at": NOON + timedelta(seconds=began), "ended_at": NOON + timedelta(seconds=ended)}
    return TimelineRow(**about, **times, type=type, depth=depth)  # type: ignore[arg-type]


def run_of(ended: float, *parts: TimelineRow) -> list[TimelineRow]:
    return [row(0, ended, "run", 0), *parts]


def test_each_part_is_below_the_part_that_it_belongs_to() -> None:
    found = rows(whole())
    assert [f"{'  ' * one.depth}{one.name}: {one.status}" for one in found] == [
        "run auth: unset",
        "  plan, visit 1: error",
        "    iteration 1: ok",
        "      attempt 1: claude: error",
        "      waits for a retry: unset",
        "      attempt 2: claude: ok",
        "      hook notify: ok",
        "    check test: error",
        "    hook notify: error",
        "  hook notify: ok",
        "  vote (claude), visit 1: unset",
        "    iteration 1: ok",
        "      attempt 1: claude: ok",
        "  hook notify: ok",
    ]
    assert found[1].spending == found[2].spending == Spending(0.5, 100, 20)
    assert found[0].spending.input_tokens == 100
    assert (found[1].verdict, found[7].message, found[0].is_over) == ("fail", "2 tests fail", False)


def attempt() -> ItemStory:
    story = ItemStory().enter("0")
    story.begin(HERE)
    return story


def waits(story: Story) -> list[tuple[str, float, float | None, str]]:
    def second(when: datetime | None) -> float | None:
        return None if when is None else (when - NOON).total_seconds()

    return [
        (one.waits_for, (one.started_at - NOON).total_seconds(), second(one.ended_at), one.message)
        for one in story.fold.waits
    ]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ((FAILED, f.RetryScheduled(2, 3, NOON, "again"), f.TimerFired("retry")), ("retry", 6, 7, "it died")),
        ((FAILED, LIMIT), ("limit", 6, None, "it died")),
        ((FAILED, LIMIT, f.SessionAborted("no time")), ("limit", 6, 7, "it died")),
        ((ASKED, ANSWERED), ("answer", 5, 6, "Approve it?")),
        ((ASKED, f.SessionPaused("approval", ("r-1",))), ("answer", 5, None, "Approve it?")),
        ((f.SessionPaused("requested"), f.SessionResumed("dana")), ("resume", 5, 6, "on request")),
        ((f.SessionFailed(FailureKind.AGENT_ERROR, "no way", "plan"),), ("resume", 5, None, "no way")),
        ((f.SessionRecovered(1, "here"),), ("engine", 4, 5, "")),
    ],
)
def test_what_a_run_waits_for(
    facts: tuple[f.AnyFact, ...], expected: tuple[str, float, float | None, str]
) -> None:
    story = attempt()
    for fact in facts:
        story.add(fact, None if fact.run_status or isinstance(fact, f.SessionRecovered) else HERE)
    assert waits(story) == [expected]


def test_waits_between_two_iterations() -> None:
    story = attempt().complete(HERE)
    story.add(f.DelayStarted(NOON), HERE).add(f.TimerFired("delay"), HERE)
    story.add(f.StageRetried(1, 2, NOON, FailureKind.AGENT_ERROR, "no result"), HERE)
    assert waits(story) == [("delay", 6, 7, ""), ("retry", 8, None, "")]
    assert [(one.name, one.depth) for one in rows(story) if one.type == "wait"] == [
        ("delay", 2),
        ("waits for a retry", 2),
    ]


def test_an_attempt_that_others_hold_at_a_cap_waits_until_they_have_ended() -> None:
    plan, said = capped(block("a b", priced()), cost_usd=0.5), ("start", "a: prepared", "b: prepared")
    (held,) = rows_of_type("wait", told(plan, *said)[0].events)
    assert (held.name, held.message) == ("waits for other attempts", "the run: $0.30 of $0.50 reserved")
    assert not held.is_over
    (held,) = rows_of_type("wait", told(plan, *said, "a: completed cost=0.2")[0].events)
    assert (held.depth, held.is_over) == (3, True)
    roomy = capped(block("a b", priced()), cost_usd=0.6)
    assert rows_of_type("wait", told(roomy, *said)[0].events) == []


def rows_of_type(type: str, events: list[Event]) -> list[TimelineRow]:
    return [one for one in timeline_of(record_of(events)) if one.type == type]


def test_wait_of_a_node_that_moves_in_a_new_plan() -> None:
    story = attempt().add(FAILED, HERE).add(LIMIT, HERE).add(ASKED, HERE)
    moved = plan_of(stage_of("first"), *PLAN.nodes)
    paths = {str(n): str(n + 1) for n in range(4)}
    story.add(f.PlanChanged(moved, Destination("1"), paths))
    assert [(one.waits_for, one.at and one.at.node_path, one.ended_at) for one in story.fold.waits] == [
        ("limit", "1", None),
        ("answer", "1", None),
    ]


def test_an_answer_is_shown_and_what_is_asked_outside_of_a_visit_is_part_of_the_run() -> None:
    story = ItemStory().add(ASKED, at("0")).enter("0").add(ANSWERED, at("0"))
    asked = next(one for one in rows(story) if one.type == "wait")
    assert (asked.depth, asked.message) == (1, "approve, by dana: Approve it?")
    (stopped,) = (one for one in rows(attempt().add(f.SessionPaused("requested"))) if one.type == "wait")
    assert (stopped.name, stopped.depth, stopped.is_over) == ("waits for a resume", 1, False)


def test_spending_in_json() -> None:
    found = timeline_json(row(0, 1, spending=Spending(0.5, 10, 2, ("gpt",))))
    spent = ("cost_usd", "unpriced_models", "input_tokens", "output_tokens")
    assert [found[key] for key in spent] == [0.5, ("gpt",), 10, 2]
    assert "spending" not in found


def test_nothing_is_later_than_the_end_of_the_run() -> None:
    story = attempt().complete(HERE)
    story.events.append(event(9, f.SessionCompleted("done"), None, 3))
    run, *others = rows(story)
    assert run.ended_at == max(one.ended_at for one in others) == NOON + timedelta(seconds=5)
    assert timeline_of(RunRecord()) == []


# -- what is drawn


def iterations(number: int, status: str = "ok") -> list[TimelineRow]:
    """Those of a visit, with one attempt each."""
    parts = [row(0, number, "visit")]
    for n in range(number):
        parts += [row(n, n + 1, "iteration", 2, status=status), row(n, n + 1, "attempt", 3)]
    return run_of(number, *parts)


def names(rows: list[TimelineRow]) -> list[str]:
    return [one.name for one in rows]


def test_the_only_attempt_is_on_the_row_of_its_iteration() -> None:
    first, second = row(0, 1, name="attempt 1: claude"), row(1, 2)
    alone = run_of(2, row(0, 2, "iteration"), replace(first, depth=2), row(1, 2, "hook", 2))
    assert names(drawn_rows(alone)) == ["run", "iteration: claude", "hook"]
    both = run_of(2, row(0, 2, "iteration"), replace(first, depth=2), replace(second, depth=2))
    assert names(drawn_rows(both)) == ["run", "iteration", "attempt 1: claude", "attempt"]


def test_of_many_iterations_the_first_and_the_last_are_drawn() -> None:
    assert len(drawn_rows(iterations(MAX_BELOW + 1))) == 2 + MAX_BELOW + 1
    drawn = drawn_rows(iterations(500, status="error"))
    more = drawn[2 + MAX_BELOW // 2]
    assert len(drawn) == 2 + MAX_BELOW + 1
    assert (more.type, more.name, more.message) == ("more", "480 iterations more", "480 failed")
    assert more.ended_at - more.started_at == timedelta(seconds=480)


def test_the_number_of_rows_is_bounded() -> None:
    visits = [one for _ in range(300) for one in iterations(300)[1:]]
    drawn = drawn_rows(run_of(300, *visits))
    assert 100 < len(drawn) <= MAX_ROWS


@pytest.mark.parametrize("waits_for", ["delay", "resume"])
def test_a_pause_of_the_engine_is_drawn_if_it_is_long_or_not_over(waits_for: str) -> None:
    brief, long = (row(*times, "wait", waits_for=waits_for) for times in ((0, 2), (2, 5)))
    now = row(5, 5, "wait", waits_for=waits_for, is_over=False)
    assert drawn_rows(run_of(100, brief, long, now))[1:] == [long, now]


# -- where


def places(scale: Scale, *seconds: float) -> list[float]:
    return [round(scale.at(NOON + timedelta(seconds=one)), 3) for one in seconds]


def ticks(rows: list[TimelineRow], most: int = 5) -> list[str]:
    return [f"{tick.at:.2f} {'≈' * tick.is_cut}{tick.text}" for tick in Scale(rows).ticks(most)]


def test_long_times_without_a_program_are_cut() -> None:
    hour = 3600
    work = run_of(10 * hour, row(0, 600), row(9 * hour, 9 * hour + 600))
    assert places(Scale(work), 0, 600, 9 * hour, 9 * hour + 600, 10 * hour) == [0, 0.25, 0.5, 0.75, 1]
    assert ticks(work) == ["0.00 0s", "0.38 ≈8h 50m", "0.50 9h", "0.88 ≈50m 00s"]
    short = run_of(1200, row(0, 600), row(900, 1200))
    assert places(Scale(short), 600, 900) == [0.5, 0.75]
    assert places(Scale(run_of(hour, row(0, hour, "wait"))), 0, 900, hour) == [0, 0.25, 1]
    assert places(Scale(run_of(0)), 0) == [0]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, []),
        (1, ["0s", "0.2s", "0.4s", "0.6s", "0.8s"]),
        (60, ["0s", "15s", "30s", "45s"]),
        (400, ["0s", "2m", "4m", "6m"]),
        (86400 * 1000, ["0s", "200d 0h", "400d 0h", "600d 0h", "800d 0h"]),
    ],
)
def test_times_beside_the_rows(seconds: float, expected: list[str]) -> None:
    rows = run_of(seconds, row(0, seconds))
    assert [tick.text for tick in Scale(rows).ticks(5)] == expected


# -- as text and as a picture


def test_timeline_as_text() -> None:
    rows = run_of(
        100,
        row(0, 50, status="ok", verdict="pass", spending=Spending(0.5, 1000, 1, ("gpt",))),
        row(50, 75, "wait", message="why\x1b[2J"),
        row(75, 100, status="error", is_over=False),
        row(100, 100, is_over=False),
    )
    lines = list(timeline_lines(rows, "running", 76))
    assert [line.mark for line in lines] == ["", "note", "done", "wait", "failed", "current"]
    bars = [f"|{line.before}{line.bar}{line.after}" for line in lines]
    wide = len(lines[1].bar)
    assert bars[2].startswith("|" + "█" * (wide // 2) + " ")
    assert "░" in bars[3]
    assert "\x1b" not in bars[3]
    assert lines[5].before + lines[5].bar == " " * (wide - 1) + "█"
    assert [line.mark for line in timeline_lines(rows, "paused", 10)][-1] == "stopped"
    assert timeline_text(rows[1]) == "50s, pass, $0.50 + unknown (gpt reported none), 1,001 tokens"
    assert timeline_text(rows[3]) == "25s so far"
    assert timeline_count(rows) == "began 2026-01-15 12:00:00 UTC, 1m 40s"
    assert lines[0].bar.startswith("0s")
    assert len(lines[0].bar) <= wide


def test_any_text_is_quoted_in_the_picture() -> None:
    odd = "<script>alert('1')</script> & \x1b[2J\ud800\ufffe\"]]>"
    rows = run_of(10, row(0, 10, name=odd, message=odd, verdict=odd))
    picture = timeline_svg([replace(rows[0], name=odd), rows[1]], "running")
    root = ElementTree.fromstring(picture)
    assert "<script" not in picture
    assert "script>alert" in "".join(root.itertext())
    assert {one.tag.partition("}")[2] for one in root.iter()} == {
        *("svg", "title", "desc", "style", "rect", "text", "path", "g")
    }
    assert not any(key in picture for key in ("href", "url(", "@import", "onload"))


def test_a_time_that_is_cut_is_named_in_text_and_picture() -> None:
    rows = run_of(36000, row(0, 600), row(32400, 36000))
    assert "≈8h 50m" in next(iter(timeline_lines(rows, "running", 100))).bar
    assert "≈ 8h 50m" in timeline_svg(rows, "running")


def test_times_do_not_overlap() -> None:
    often = run_of(36000, *(row(n * 1000, n * 1000 + 100) for n in range(36)))
    said = next(iter(timeline_lines(often, "running", 80))).bar
    assert said.startswith("0s ≈15m 00s ")
    picture = ElementTree.fromstring(timeline_svg(often, "running"))
    texts = [one for one in picture if one.tag.endswith("text")][2:]
    ends = [float(one.attrib["x"]) + 7 * len(one.text or "") for one in texts]
    assert all(end < float(one.attrib["x"]) for end, one in zip(ends, texts[1:], strict=False))
