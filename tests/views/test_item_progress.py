"""The progress of a stage over items, in steps."""

from datetime import UTC
from typing import Any

from tests.engine.plans import block, plan_of, stage
from tests.views.item_runs import PLAN, STEPS, ItemStory, at
from tests.views.test_work import Story

from agentforge.engine.items import elements_of, planned
from agentforge.model import facts as f
from agentforge.model.artifact import ItemAt
from agentforge.model.plan import Items, Plan
from agentforge.views.lines.events import run_line
from agentforge.views.lines.status import branch_text, stage_text, status_rows
from agentforge.views.results import RunInfo
from agentforge.views.stage_progress import StageProgress, stage_progress
from agentforge.views.status import StatusView, status_view
from agentforge.views.top import top_row


def view(story: Story) -> StatusView:
    model = story.fold.model
    assert model.state is not None
    assert model.plan is not None
    info = RunInfo("auth", "running", "", model.plan, model.state, model.summary)
    return status_view(info, story.events[-1].at)


def build(story: Story) -> StageProgress:
    return next(row for row in view(story).stages if row.id == "build")


def begun(story: ItemStory, number: int, id: str, visit: int = 1) -> ItemStory:
    story.add(f.IterationStarted("build", "build", "claude", "opus", "0", item=id), at("1", number, visit))
    return story


def rows(story: Story) -> dict[str, str]:
    return {row.label: row.value for row in status_rows(view(story), story.events[-1].at, UTC)}


def subject(story: Story, of: Plan = PLAN) -> str:
    line = run_line(story.events[-1], of, story.fold.model.state)
    return line.subject if line else ""


def test_steps_are_counted_once_they_are_known() -> None:
    story = ItemStory().planned()
    assert (build(story), stage_text(build(story))) == (StageProgress("build", "waiting", 0, 0), "")
    story.items()
    assert stage_text(build(story)) == "0/3"
    assert "Step" not in rows(story)
    begun(story, 1, "s1")
    assert build(story).item == view(story).item == ItemAt("s1", 1, 3)
    assert (rows(story)["Step"], rows(story)["Iteration"]) == ("1 of 3: s1", "1")
    assert (subject(story), top_row(view(story), story.events[-1].at).cells[3]) == ("build 1/3", "1/3")


def test_a_step_with_two_iterations_is_one_step() -> None:
    story = begun(ItemStory().planned().items().item(1, "s1"), 2, "s2")
    story.complete(at("1", 2), stage="build")
    assert (subject(story), stage_text(build(story))) == ("build 2/3", "1/3")
    begun(story, 3, "s2")
    assert (subject(story), rows(story)["Step"], rows(story)["Iteration"]) == (
        "build 2/3",
        "2 of 3: s2",
        "3",
    )
    story.complete(at("1", 3), stage="build").add(f.ItemEnded("s2", "failed", "no"), at("1", 3))
    assert (subject(story), build(story).item, stage_text(build(story))) == ("build", None, "2/3")
    # A line about the iteration without its item.
    story.add(f.CheckStarted("test"), at("1", 3))
    assert subject(story) == "build"
    assert run_line(story.events[-1], PLAN).subject == "build"  # type: ignore[union-attr]


def test_stage_that_is_over_has_its_steps() -> None:
    story = ItemStory().planned().items().item(1, "s1").item(2, "s2", status="failed")
    story.add(f.StageVerdictReached("fail"), at("1", 2))
    story.add(f.NodeCompleted("build", "Completed 1 of 3 items", 2, verdict="fail"), at("1", 2))
    assert stage_text(build(story)) == "2/3  fail"


def test_stage_without_items_says_why_it_is_over() -> None:
    story = ItemStory().planned().items(value={"steps": []})
    story.add(f.NodeCompleted("build", "There are no items", 0), at("1"))
    assert stage_text(build(story)) == "  There are no items"


def test_steps_of_a_branch() -> None:
    vote = stage("vote", termination=Items(10, "plan.steps"))
    plan = plan_of(block("claude codex", stage("read", 2), vote), stage("last"))
    story = Story(plan).add(
        f.NodeStarted("block", "0", kind="parallel", providers=("claude", "codex"), stages=("read", "vote")),
        at("0"),
    )
    assert (view(story).stages[0].total, view(story).iterations_max) == (4, 4)
    state = story.fold.model.state
    assert state is not None
    story.add(f.ProviderStarted("claude", ("read", "vote")), at("0", branch="claude"))
    for name, path in (("read", "0.0"), ("vote", "0.1")):
        story.add(f.NodeStarted(name, path), at(path, branch="claude"))
        if name == "read":
            story.add(f.StageCompleted(name, "enough", 0), at(path, branch="claude"))
    claude = at("0.1", branch="claude")
    found: Any = elements_of(STEPS, "steps", 10)
    story.add(planned(found, (), None, 1, "0" * 64), claude)
    where = at("0.1", 1, branch="claude")
    story.add(f.IterationStarted("vote", "vote", "claude", "opus", "0", item="s1"), where)
    (mine, _) = view(story).stages[0].branches
    assert (mine.total, branch_text(mine)) == (5, "0/5  vote, step 1 of 3")
    assert subject(story, plan) == "claude: vote 1/3"
    assert stage_progress(plan, state)[1].total == 1


def test_user_request_is_cut_to_a_line() -> None:
    assert ("User request" in rows(ItemStory()), view(ItemStory()).user_request) == (False, None)
    story = ItemStory()
    text = "Add a slugify\nfunction " + "x" * 500
    fact = f.SessionStarted("pipeline", "run-1", PLAN, "1.0", format=f.LOG_FORMAT, user_request=text)
    story.events = []
    story.add(fact)
    assert view(story).user_request == text
    assert rows(story)["User request"].startswith("Add a slugify function xxx")
    assert len(rows(story)["User request"]) < 200
