"""What each stage of the loop is told."""

from pathlib import Path

import pytest
from tests.loop.story import REQUEST, Story, plan, report, review
from tests.sdk.approvals import events
from tests.sdk.projects import load, run_dir


def prompt(project: Path, stage: str, number: int = 1, visit: int = 1) -> str:
    folder = next(run_dir(project).glob(f"stage-*-{stage}"))
    folder = folder if visit == 1 else folder / f"run-{visit:03d}"
    return (folder / f"iterations/{number:03d}/prompt.md").read_text()


@pytest.mark.requirement("FR-040", "FR-041", "FR-042")
def test_should_provide_full_to_planner(tmp_path: Path) -> None:
    story = Story(tmp_path, planner=[plan("s1", edge_cases=["empty text"]), plan("s1", "s2")])
    story.acts["reviewer"] = [review("reject")]
    assert story.run().completed
    assert REQUEST in prompt(tmp_path, "planner")
    again = prompt(tmp_path, "planner", visit=2)
    assert REQUEST in again
    assert "an empty text has no slug" in again
    previous = load(run_dir(tmp_path) / "stage-00-planner/run-002/iterations/001/context.json")["previous"]
    assert previous["edge_cases"] == ["empty text"]


@pytest.mark.requirement("FR-043")
def test_should_provide_focused_to_executor(tmp_path: Path) -> None:
    story = Story(tmp_path, planner=[plan("s1", "s2", "s3")], verifier=[report("s3")])
    assert story.run().completed
    third = prompt(tmp_path, "executor", 3)
    assert ('"id":"s3"' in third, '"id":"s2"' in third, '"id":"s1"' in third) == (True, True, False)
    assert "it is wrong" in prompt(tmp_path, "executor", visit=2)


@pytest.mark.requirement("FR-044", "FR-045")
def test_verifier_gets_output_and_criteria_and_reviewer_the_history_without_the_plan(tmp_path: Path) -> None:
    story = Story(tmp_path, planner=[plan("s1", goal="the planner's own reason")])
    assert story.run().completed
    told = prompt(tmp_path, "verifier")
    assert "s1 is done" in told
    assert "did it" in told
    told = prompt(tmp_path, "reviewer")
    assert REQUEST in told
    assert "verifier" in told
    assert "the planner's own reason" not in told


@pytest.mark.requirement("FR-046", "FR-047", "FR-048", "FR-049", "FR-050", "FR-051", "FR-052", "FR-053")
def test_should_respect_token_budget(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.change("total: 100000", "total: 20000")
    story.acts["reviewer"] = [review("reject")]
    story.acts["planner"] = [plan("s1", output="x" * 60_000)]
    assert story.run().completed
    used = {
        event.cursor.node_path: event.fact.context
        for event in events(tmp_path, "iteration_start")
        if event.cursor
    }
    assert {path: context and context.budget for path, context in used.items()} == {
        "0": 7200,
        "1": 5400,
        "2": 2700,
        "3": 2700,
    }
    cut = [
        part
        for event in events(tmp_path, "iteration_start")
        if event.fact.context
        for part in event.fact.context.omitted
    ]
    assert cut
    assert all(context and context.tokens <= (context.budget or 0) for context in used.values())
