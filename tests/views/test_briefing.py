"""What iterations are told of the run: the four context strategies."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.any_log import any_log
from tests.views.item_runs import STEPS, ItemStory, at

from agentforge.model import facts as f
from agentforge.model.artifact import ItemAt, Strategy
from agentforge.model.check import CheckCounts
from agentforge.model.event import Event
from agentforge.model.request import Feedback
from agentforge.model.result import Decision, Result, WorkReport
from agentforge.views.briefing import (
    MAX_VISITS,
    RECENT,
    BriefingAt,
    BriefingFiles,
    briefing_parts,
    title_of,
)
from agentforge.views.record import RunRecord, record_of
from agentforge.views.token_budget import Part, briefing_text, fitted

A, B, C = (letter * 40 for letter in "abc")
STRATEGIES: list[Strategy] = ["full", "focused", "minimal", "summary"]
S2 = ItemAt("s2", 2, 3)


NO_FILES = BriefingFiles(lambda _: "", lambda *_: ())


def told(
    strategy: Strategy, story: ItemStory, where: BriefingAt, files: BriefingFiles = NO_FILES
) -> list[Part]:
    return list(briefing_parts(strategy, story.fold, where, files))


def brief(parts: list[Part]) -> dict[str, str]:
    return {part.name: part.text for part in parts}


READ = BriefingFiles(lambda path: f"({path})", lambda *_: ["a.py"])
"""Each output says where it is."""


def outputs(strategy: Strategy, story: ItemStory, where: BriefingAt) -> list[str]:
    """The paths of those that are read, the latest first."""
    read = list[str]()
    told(strategy, story, where, BriefingFiles(lambda path: read.append(path) or "", lambda *_: ()))
    return read[::-1]


def busy() -> ItemStory:
    """Two items are done, the second after a first try."""
    story = ItemStory().planned().items().item(1, "s1")
    return story.iteration(at("1", 2), "s2", "tried s2").item(3, "s2")


BUILD = BriefingAt(
    path="1",
    request="a parser",
    input={"request_id": "REQ-1", **STEPS},
    item=S2,
    element=STEPS["steps"][1],
    needed={"s1": STEPS["steps"][0]},
    feedback=Feedback("test fails", "the checks"),
)
VERIFY = BriefingAt(path="2", request="a parser", input={**STEPS, "build": {"s1": {"ok": True}}})


def test_full_has_what_was_said_in_order_and_the_latest_outputs() -> None:
    story = ItemStory().planned()
    story.add(f.RequestOpened("q-1", "question", "k", "asked", "Which?", ()), at("0", 1))
    story.add(f.NoteAdded("be quick", "ada"))
    story.add(f.RequestAnswered("q-1", "sqlite", "ada", "it is small"), at("0", 1))
    story.items().item(1, "s1").item(2, "s2").iteration(at("2", 1), said="looked")
    story.add(f.StageTransitioned("verify", "build", "fail", feedback=Feedback("redo s2", "verify")), at("2"))
    where = BriefingAt(path="1", request="a parser", input=STEPS, item=S2, element="two")
    parts = told("full", story, where, READ)
    assert [(part.name, part.rank) for part in parts] == [
        ("request of the user", 0),
        ("question of plan", 1),
        ("note by ada", 1),
        ("answer by ada", 1),
        ("feedback by verify for build", 1),
        ("item s2 (2 of 3)", 0),
        ("input artifact", 2),
        ("output of plan, iteration 1", 3),
        ("output of build, iteration 1, item s1", 3),
        ("output of build, iteration 2, item s2", 3),
        ("output of verify, iteration 1", 3),
    ]
    texts = brief(parts)
    assert texts["answer by ada"] == "sqlite\nit is small"
    assert json.loads(texts["input artifact"]) == STEPS
    assert texts["output of verify, iteration 1"] == "(stage-02-verify/iterations/001/output.md)"
    assert [part.age for part in parts if part.rank == 1] == [4, 3, 2, 1]
    assert [part.age for part in parts if part.rank == 3] == [3, 2, 1, 0]


def test_full_has_the_feedback_of_checks_which_the_log_does_not_say() -> None:
    parts = brief(told("full", ItemStory().planned(), BUILD))
    assert parts["feedback by the checks"] == "test fails"
    again = ItemStory().planned()
    again.add(
        f.NodeRestarted("plan", "rejected", "no", "ada", 1, feedback=Feedback("test fails", "ada")), at("0")
    )
    assert "feedback by the checks" not in brief(told("full", again, BUILD))
    assert brief(told("full", again, BUILD))["feedback by ada for plan"] == "test fails"


def test_full_has_the_latest_output_of_each_item_of_other_stages_and_some_of_its_own() -> None:
    story = ItemStory().planned().items()
    for number in range(1, RECENT + 3):
        story.iteration(at("1", number), "s1" if number % 2 else "s2")
    own, other = (outputs("full", story, BriefingAt(path=path)) for path in ("1", "2"))
    assert len(own) == RECENT + 1
    assert [path.split("/")[-2] for path in own] == ["007", "006", "005", "004", "003", "001"]
    assert [path.split("/")[-2] for path in other] == ["007", "006", "001"]


def test_focused_has_the_item_what_it_needs_its_own_outputs_and_feedback() -> None:
    parts = told("focused", busy(), BUILD, READ)
    assert [(part.name, part.rank, part.age) for part in parts] == [
        ("item s2 (2 of 3)", 0, 0),
        ("item s1, which it depends on", 2, 0),
        ("output of build, iteration 2, item s2", 3, 1),
        ("output of build, iteration 3, item s2", 3, 0),
        ("feedback by the checks", 1, 0),
    ]
    assert json.loads(parts[0].text) == STEPS["steps"][1]
    plain = BriefingAt(path="2")
    story = busy().enter("2").iteration(at("2", 1))
    assert brief(told("focused", story, plain, READ)) == {
        "output of verify, iteration 1": "(stage-02-verify/iterations/001/output.md)"
    }


def test_minimal_has_the_outputs_of_the_stage_before_its_items_and_its_checks() -> None:
    story = busy()
    story.add(f.CheckStarted("test"), at("1", 3))
    outcome = f.CheckCompleted(
        "test", 1, "fail", counts=CheckCounts(1, 2), signatures=("a.py: broken",), duration_ms=1500
    )
    story.add(outcome, at("1", 3))
    parts = told("minimal", story, VERIFY, READ)
    assert [(part.name, part.rank) for part in parts] == [
        ("item s1", 1),
        ("item s2", 1),
        ("checks of build", 2),
        ("output of build, iteration 1, item s1", 4),
        ("output of build, iteration 3, item s2", 4),
    ]
    assert "a.py: broken" in brief(parts)["checks of build"]
    assert "test failed in 1.5s" in brief(parts)["checks of build"]


def test_minimal_has_what_the_stage_before_was_given_if_it_has_no_items() -> None:
    story = ItemStory().planned()
    where = BriefingAt(path="1", input={"goal": "x"})
    parts = brief(told("minimal", story, where, READ))
    assert [*parts] == ["input artifact", "artifact of plan, iteration 1", "output of plan, iteration 1"]
    assert json.loads(parts["artifact of plan, iteration 1"]) == STEPS
    unknown = BriefingAt(path="2", input={"steps": "none"})
    assert [*brief(told("minimal", busy(), unknown))] == ["input artifact"]
    assert told("minimal", ItemStory(), BriefingAt(path="0")) == []
    assert [*brief(told("minimal", ItemStory(), BriefingAt(path="0", input={"a": 1})))] == ["input artifact"]


def test_minimal_of_a_stage_over_items_has_the_output_about_the_same_item() -> None:
    where = BriefingAt(path="2", item=S2, element="two", input=STEPS)
    story = busy()
    parts = brief(told("minimal", story, where, READ))
    assert [*parts] == ["item s2 (2 of 3)", "output of build, iteration 3, item s2"]
    other = BriefingAt(path="2", item=ItemAt("s9", 1, 1), element="nine", input=STEPS)
    assert len(told("minimal", story, other, READ)) == 3


def test_summary_has_the_items_and_the_visits_with_what_they_changed() -> None:
    story = ItemStory().planned().items()
    story.item(1, "s1", tree=B).item(2, "s2", status="failed", tree=C)
    story.add(f.StageVerdictReached("fail", "failed items: s2"), at("1", 2))
    story.add(f.CheckStarted("test"), at("1", 2)).add(
        f.CheckCompleted("test", 1, "pass", duration_ms=1000), at("1", 2)
    )
    story.add(f.NodeCompleted("build", "enough", 2, verdict="fail"), at("1", 2))
    story.add(f.StageTransitioned("build", "plan", "fail", cycle=2, of=3), at("1", 2))
    story.enter("0", 2).iteration(
        at("0", 1, 2), said="", result=Result(work=WorkReport(files_touched=("b.py", "c\nd")))
    )
    parts = told("summary", story, VERIFY, READ)
    assert [(part.name, part.rank, part.age) for part in parts] == [
        ("request of the user", 0, 0),
        ("items of build", 1, 0),
        ("plan", 2, 2),
        ("build", 2, 1),
        ("files changed by build", 3, 1),
        ("plan, visit 2", 2, 0),
        ("files changed by plan, visit 2", 3, 0),
    ]
    texts = brief(parts)
    assert texts["items of build"] == "s1 done: Parse\ns2 failed: Check\ns3 pending"
    assert texts["plan"] == "1 iteration: completed\niteration 1: planned"
    assert texts["build"] == (
        "2 iterations: completed\nverdict fail: failed items: s2\ncheck test passed in 1.0s\n"
        "iteration 1, item s1: did s1\niteration 2, item s2: did s2\nthen back to plan"
    )
    assert texts["files changed by build"] == "a.py"
    assert texts["files changed by plan, visit 2"] == "b.py\nc d"
    assert texts["plan, visit 2"] == "1 iteration: not completed"


def test_summary_has_the_change_since_the_run_began() -> None:
    story = ItemStory().planned().items()
    story.item(1, "s1", tree=B).item(2, "s2", tree=C)
    read = BriefingFiles(READ.output, READ.changed, lambda before, after: f"from {before} to {after}")
    *_, last = told("summary", story, VERIFY, read)
    assert (last.name, last.rank, last.keep) == ("change since the run began", 4, "head")
    assert last.text == f"from {B} to {C}"


def test_summary_names_who_accepted_a_verdict_and_where_it_led() -> None:
    story = ItemStory().planned().items(value={"steps": []})
    story.add(f.StageVerdictReached("fail"), at("1"))
    story.add(f.NodeCompleted("build", "none", 0, verdict="fail", overridden_by="ada"), at("1"))
    story.add(f.StageTransitioned("build", "verify", "fail"), at("1"))
    parts = brief(told("summary", story, BriefingAt(path="2")))
    assert parts["build"] == "0 iterations: completed\nverdict fail, accepted by ada\nthen on to verify"
    assert parts["items of build"] == ""


def test_summary_has_the_latest_visits() -> None:
    story = ItemStory()
    for visit in range(1, MAX_VISITS + 3):
        story.enter("0", visit)
    parts = told("summary", story, BriefingAt(path="1"))
    assert (len(parts), parts[0].name) == (MAX_VISITS, "plan, visit 3")


def test_outputs_that_are_only_in_the_log_are_not_read_and_empty_ones_not_told() -> None:
    story = ItemStory().enter("0").iteration(at("0", 1), text="from the log")
    where = BriefingAt(path="1")
    assert outputs("full", story, where) == []
    assert brief(told("full", story, where)) == {"output of plan, iteration 1": "from the log"}
    assert told("full", ItemStory().planned(), where) == []


def test_iteration_without_a_folder_has_no_output() -> None:
    story = ItemStory().planned()
    result = Result(summary="did it")
    lost = f.IterationCompleted("build", 1, Decision.CONTINUE, "", "", result, 9)
    story.add(lost, at("1", 1))
    assert len(story.fold.iterations) == 2
    assert outputs("full", story, BriefingAt(path="2")) == ["stage-00-plan/iterations/001/output.md"]


def test_items_that_were_dropped_are_told_no_more() -> None:
    story = busy().items(2, {"steps": STEPS["steps"][:1]})
    read = outputs("full", story, BriefingAt(path="2"))
    assert [path.split("/")[-2] for path in read] == ["001", "001"]


def test_branches_do_not_know_what_the_others_do() -> None:
    story = ItemStory().planned()
    for branch in ("claude", "codex"):
        where = at("3.0", 1, 1, branch)
        story.add(f.RequestOpened(f"q-{branch}", "question", "k", "asked", f"{branch}?", ()), where)
        story.iteration(where, said=branch)
        story.add(f.RequestAnswered(f"q-{branch}", f"yes, {branch}", "ada"), where)
        story.add(f.NodeRestarted("vote", "rejected", "", "ada", 1, feedback=Feedback(branch, "ada")), where)
    own = told("full", story, BriefingAt(path="3.0", branch="codex"))
    assert [part.text for part in own] == ["codex?", "yes, codex", "codex"]
    after = told("full", story, BriefingAt(path="4"))
    assert len(after) == 6
    assert [*brief(told("summary", story, BriefingAt(path="3.0", branch="codex")))] == ["plan", "vote@codex"]


def test_items_of_other_branches_are_not_told() -> None:
    story = ItemStory().planned()
    for branch in ("claude", "codex"):
        story.add(f.NodeStarted("vote", "3.0"), at("3.0", 0, 1, branch))
    story.items()
    record = story.fold
    state = record.model.state
    assert state is not None
    state.items["3.0@claude"] = state.items["1"]
    state.items["9@codex"] = state.items["1"]
    parts = briefing_parts("summary", record, BriefingAt(path="3.0", branch="codex"), NO_FILES)
    assert [part.name for part in parts if part.rank == 1] == ["items of build", "items of 9"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_record_of_nothing_says_nothing(strategy: Strategy) -> None:
    assert briefing_parts(strategy, RunRecord(), BriefingAt(path="0"), NO_FILES) == ()


@pytest.mark.parametrize(
    ("element", "title"),
    [
        ({"id": "s1", "title": "Parse\nit", "name": "n"}, "Parse it"),
        ({"title": 3, "name": "", "description": "what"}, "what"),
        ({"id": "s1"}, ""),
        ("a text\nis its own", "a text is its own"),
        (None, ""),
    ],
)
def test_titles_of_items(element: Any, title: str) -> None:
    assert title_of(element) == title


@given(any_log, st.sampled_from(STRATEGIES), st.integers(0, 4000), st.text(max_size=200))
def test_whatever_the_log_says_the_briefing_fits_and_is_told_again_alike(
    events: list[Event], strategy: Strategy, room: int, request: str
) -> None:
    record = record_of(events)
    for path, branch in (("0", None), ("5", None), ("2.0", "claude")):
        item = ItemAt("s1", 1, 2) if path == "5" else None
        where = BriefingAt(path=path, branch=branch, request=request, item=item, element=[1], input={"a": 1})
        files = BriefingFiles(lambda _: "x" * 500, lambda *_: ("a",))
        parts = briefing_parts(strategy, record, where, files)
        assert parts == briefing_parts(strategy, record_of(events), where, files)
        found = fitted(parts, room)
        sent = briefing_text(found.kept, found.missing)
        always = [part for part in parts if part.rank == 0]
        assert len(sent.encode()) <= max(room, sum(part.size for part in always)) + 300
        assert [part for part in always if part.text not in sent] == []
        if request and strategy in ("full", "summary"):
            assert f"\n{request}\n----- end of request of the user " in sent
        assert {part.name for part in parts} == {part.name for part in found.kept} | {
            one.name for one in found.omitted
        } or len(found.omitted) > 50
