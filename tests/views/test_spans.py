"""The spans of a run: each part once, below what it belongs to, with the ids that log records have."""

from datetime import UTC, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, plan_of, stage
from tests.views.item_runs import PLAN, ItemStory, at
from tests.views.test_work import Story

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.failure import FailureKind
from agentforge.model.result import Usage
from agentforge.views.lines.entries import Shown
from agentforge.views.lines.spans import span_entry
from agentforge.views.record import record_of
from agentforge.views.spans import ID_DIGITS, Span, event_span_id, span_id, spans_of

BLOCK = Cursor("3", 1, 0)


def spans(story: Story) -> list[Span]:
    return spans_of(story.fold)


def tree(story: Story) -> list[str]:
    """Each span below its parent."""
    found = spans(story)
    names = {span.span_id: f"{span.type} {span.name}" for span in found}
    return [
        f"{names.get(one.parent_span_id or '', '-')} > {one.type} {one.name}: {one.status}" for one in found
    ]


def hook(
    key: str, where: Cursor | None, story: Story, end: f.AnyFact | None = None, name: str = "notify"
) -> Story:
    story.add(f.HookStarted(name, "stage_end", key, action="script"), where)
    return story.add(end or f.HookCompleted(name, "stage_end", key, duration_ms=5), where)


def whole() -> ItemStory:
    story = ItemStory().enter("0")
    story.begin(at("0", 1))
    story.add(f.ErrorOccurred(FailureKind.PROVIDER_CRASHED, "it died", "plan", 1), at("0", 1))
    story.add(f.RetryScheduled(2, 3, story.events[-1].at, "again"), at("0", 1))
    story.begin(at("0", 1), attempt=2).complete(at("0", 1), attempt=2, usage=Usage(100, 20, cost_usd=0.5))
    story.add(f.CheckStarted("test"), at("0", 1))
    story.add(f.CheckCompleted("test", 1, "fail", reason="2 tests fail", duration_ms=1500), at("0", 1))
    story.add(f.StageVerdictReached("fail", "the check fails"), at("0", 1))
    hook("h-1", at("0", 1), story)
    hook("h-2", at("0"), story, f.HookTimedOut("notify", "stage_end", "h-2", duration_ms=9))
    hook("h-3", None, story)
    story.add(f.HookSkipped("absent", "stage_end", "it is not installed"), at("0"))
    story.add(f.NodeCompleted("plan", "enough", 1, verdict="fail"), at("0", 1))
    story.add(f.NodeStarted("duel", "3", kind="parallel", providers=("claude", "codex")), BLOCK)
    story.iteration(at("3.0", 1, branch="claude"))
    hook("h-4", BLOCK, story)
    return story


def test_each_part_is_a_span_below_the_part_that_it_belongs_to() -> None:
    assert tree(whole()) == [
        "- > run run auth: unset",
        "run run auth > visit visit plan: error",
        "visit visit plan > iteration iteration plan: ok",
        "iteration iteration plan > attempt attempt claude: error",
        "iteration iteration plan > attempt attempt claude: ok",
        "visit visit plan > check check test: error",
        "iteration iteration plan > hook hook notify: ok",
        "visit visit plan > hook hook notify: error",
        "run run auth > hook hook notify: ok",
        "run run auth > visit visit vote: unset",
        "visit visit vote > iteration iteration vote: ok",
        "iteration iteration vote > attempt attempt claude: ok",
        "run run auth > hook hook notify: ok",
    ]


def test_spans_have_what_exporters_need() -> None:
    found = spans(whole())
    ids = [one.span_id for one in found]
    assert len(set(ids)) == len(ids)
    assert all(len(id) == ID_DIGITS and int(id, 16) for id in ids)
    assert {one.trace_id for one in found} == {found[0].trace_id}
    assert all(one.end_time is None or one.end_time >= one.start_time for one in found)
    iteration, failed, check = found[2], found[3], found[5]
    assert iteration.attributes == {
        "agentforge.session": "auth",
        "agentforge.stage": "plan",
        "agentforge.node": "stage-plan",
        "agentforge.visit": 1,
        "agentforge.iteration": 1,
        "agentforge.retries": 1,
        "agentforge.cost_usd": 0.5,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
    }
    spent = {name: value for name, value in found[0].attributes.items() if "total" in name}
    assert spent == {
        "agentforge.total_input_tokens": 100,
        "agentforge.total_output_tokens": 20,
        "agentforge.total_cost_usd": 0.5,
    }
    assert failed.attributes["gen_ai.request.model"] == "opus"
    assert failed.attributes["error.type"] == "provider_crashed"
    assert failed.message == "provider_crashed: it died"
    assert (check.message, check.end_time) == ("2 tests fail", check.start_time + timedelta(seconds=1))


def test_every_event_belongs_to_a_span() -> None:
    story = whole()
    ids = {one.span_id: one.type for one in spans(story)}
    assert [ids[event_span_id(event, PLAN)] for event in story.events] == [
        *("run", "visit", "iteration", "attempt", "attempt", "iteration", "attempt", "attempt"),
        *("check", "check", "visit", "hook", "hook", "hook", "hook", "hook", "hook", "run", "visit"),
        *("run", "iteration", "attempt", "attempt", "hook", "hook"),
    ]
    sent = f.EffectIntended("h-1", "webhook", "https://example.org/")
    assert event_span_id(replace(story.events[1], fact=sent), PLAN) in ids
    assert event_span_id(story.events[1], None) == span_id(story.events[1].trace_id, "run")


def test_ids_differ_by_trace_and_place() -> None:
    places: list[tuple[Any, ...]] = [
        ("run",),
        ("visit", "0", None, 1),
        ("visit", "0", None, 11),
        ("visit", "0.1", 1),
    ]
    ids = {span_id(trace, *place) for trace in ("a", "b") for place in places}
    assert len(ids) == 2 * len(places)
    assert span_id("a", "run") == span_id("a", "run")


@pytest.mark.parametrize(
    ("facts", "status", "is_over"),
    [
        ((), "unset", False),
        ((f.SessionPaused("requested"),), "unset", False),
        ((f.SessionCompleted("all_loops_complete"),), "ok", True),
        ((f.SessionFailed(FailureKind.AGENT_ERROR, "it gave up", "plan"),), "error", True),
        ((f.SessionAborted("no time"),), "error", True),
    ],
)
def test_span_of_the_run(facts: tuple[f.AnyFact, ...], status: str, is_over: bool) -> None:
    story = ItemStory()
    for fact in facts:
        story.add(fact)
    (run,) = spans(story)
    assert (run.status, run.end_time is not None, run.name) == (status, is_over, "run auth")


def test_what_is_not_over_has_no_end() -> None:
    story = ItemStory().enter("0")
    story.begin(at("0", 1)).add(f.CheckStarted("test"), at("0", 1))
    story.add(f.HookStarted("notify", "stage_end", "h-1", action="webhook"), at("0", 1))
    story.add(f.HookFailed("notify", "stage_end", "h-1", message="HTTP 500", retry=True), at("0", 1))
    later = f.HookRetryScheduled("notify", "stage_end", "h-1", due_at=story.events[-1].at)
    story.add(later, at("0", 1))
    assert {one.end_time for one in spans(story)} == {None}
    assert {one.status for one in spans(story)} == {"unset"}
    assert not any(one.is_settled for one in spans(story))


def settled(story: Story) -> list[str]:
    return [one.name for one in spans(story) if one.is_settled]


def test_span_is_settled_when_nothing_more_becomes_of_it() -> None:
    story = ItemStory().enter("0")
    story.iteration(at("0", 1))
    hook("h-1", at("0", 1), story)
    failed = f.HookFailed("review", "stage_end", "h-2", message="HTTP 500")
    hook("h-2", at("0", 1), story, failed, "review")
    known = ["attempt claude", "hook notify"]
    assert settled(story) == known, "a judge may follow, and the hook may be called again"
    story.begin(at("0", 2))
    known = ["iteration plan", *known, "hook review"]
    assert settled(story) == known, "the iteration, with its hooks"
    story.complete(at("0", 2)).add(f.NodeCompleted("plan", "enough", 2), at("0", 2))
    known.append("attempt claude")
    assert settled(story) == known, "its route may follow"
    story.enter("1")
    known.insert(0, "visit plan")
    known.insert(5, "iteration plan")
    assert settled(story) == known
    story.add(f.SessionAborted("no time"))
    assert len(settled(story)) == len(spans(story))
    assert spans(story)[-1].end_time == story.events[-1].at, "what was not over ends with the run"


def test_hook_that_is_called_before_its_iteration_is_settled_when_that_begins() -> None:
    story = ItemStory().enter("0")
    hook("h-1", at("0", 1), story)
    assert (tree(story)[-1], settled(story)) == ("visit visit plan > hook hook notify: ok", [])
    story.begin(at("0", 1))
    found = {one.name: one for one in spans(story)}
    assert found["hook notify"].parent_span_id == found["iteration plan"].span_id
    assert found["iteration plan"].start_time == found["hook notify"].start_time
    assert settled(story) == ["hook notify"]


def test_branch_settles_what_is_of_it() -> None:
    story = ItemStory().add(f.NodeStarted("duel", "3", kind="parallel", providers=("claude", "codex")), BLOCK)
    for branch in ("claude", "codex"):
        story.iteration(at("3.0", 1, branch=branch))
    assert settled(story) == ["attempt claude", "attempt claude"]
    story.begin(at("3.0", 2, branch="codex"))
    (one,) = [one for one in spans(story) if one.is_settled and one.type == "iteration"]
    assert one.attributes["agentforge.branch"] == "codex"


def test_first_spans_after_the_run_was_continued_link_to_the_last_ones_before() -> None:
    story = ItemStory().enter("0")
    story.begin(at("0", 1))
    story.add(f.SessionRecovered(1, "host")).add(f.AttemptLost(1, "the host died", True), at("0", 1))
    story.begin(at("0", 1), attempt=2).complete(at("0", 1), attempt=2)
    story.begin(at("0", 2)).add(f.SessionResumed("person")).add(f.SessionResumed("person")).complete(
        at("0", 2)
    )
    story.begin(at("0", 3))
    found = spans(story)
    names = {one.span_id: (one.name, one.attributes.get("agentforge.iteration")) for one in found}
    linked = [(one.name, one.start_time, [names[link] for link in one.links]) for one in found if one.links]
    assert [(name, links) for name, _, links in linked] == [
        ("attempt claude", [("attempt claude", 1)]),
        ("iteration plan", [("attempt claude", 2)]),
    ]


def test_new_plan_changes_no_id() -> None:
    story = whole()
    before = {one.span_id for one in spans(story)}
    plan = plan_of(stage("verify"), block("claude codex", stage("vote")))
    paths: dict[str, str | None] = {"0": None, "1": None, "2": "0", "3": "1", "3.0": "1.0"}
    story.add(f.PlanChanged(plan, None, paths, gone={"0": "stage-plan", "1": "stage-build"}))
    assert {one.span_id for one in spans(story)} == before


def test_check_that_was_lost_says_nothing_but_when() -> None:
    story = (
        ItemStory().enter("0").add(f.CheckStarted("test"), at("0", 1)).add(f.CheckLost("test"), at("0", 1))
    )
    assert (spans(story)[-1].type, spans(story)[-1].status, spans(story)[-1].message) == (
        "check",
        "unset",
        "",
    )


def test_visit_and_check_that_pass() -> None:
    story = ItemStory().enter("0").add(f.CheckStarted("test"), at("0", 1))
    story.add(f.CheckCompleted("test"), at("0", 1)).add(f.NodeCompleted("plan", "enough", 1), at("0", 1))
    assert [one.status for one in spans(story)] == ["unset", "ok", "ok"]


def test_a_damaged_log() -> None:
    assert spans_of(record_of([])) == []
    story = ItemStory().add(f.IterationStarted("plan", "plan", "claude", "", "0"), at("0", 1))
    story.add(f.AttemptStarted(1, 2, "claude", ""), at("0", 1))
    assert "gen_ai.request.model" not in spans(story)[-1].attributes
    story.add(f.ErrorOccurred(FailureKind.PROMPT_UNREADABLE, "no file", "plan", 0), at("9", 1))
    orphan = ItemStory().add(f.AttemptStarted(1, 2, "claude", ""), at("9", 1))
    assert tree(orphan)[1] == "run run auth > iteration iteration 9: unset"


def test_spans_as_text() -> None:
    shown = Shown("/runs/auth", "running", UTC)
    run, _, iteration, failed, *_ = spans(whole())
    id = failed.span_id
    entry = span_entry(failed, shown)
    assert (entry.mark, entry.title) == (
        "failed",
        f"      attempt claude ({id}): 1.0s: provider_crashed: it died",
    )
    assert span_entry(run, shown).title == f"run auth ({run.span_id}): not finished"
    assert span_entry(run, shown).mark == "current"
    assert span_entry(replace(iteration, name="a\nb"), shown).title.startswith("    a b (")
