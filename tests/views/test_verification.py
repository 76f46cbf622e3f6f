"""What is said of stages whose work only agents verify."""

from tests.engine.plans import plan_of, stage
from tests.views.samples import history

from agentforge.model import facts as f
from agentforge.model.check import Baseline, Check
from agentforge.model.cursor import Cursor
from agentforge.views.lines.events import run_line
from agentforge.views.run_model import fold_events
from agentforge.views.verification import unverified_stages, unverified_text


def test_stages_whose_checks_are_not_used_are_not_verified() -> None:
    test, lint = Check("test", "t", regressions=True), Check("lint", "l")
    criteria = Check("criteria", criteria=True)
    plan = plan_of(
        stage("planner"),
        stage("executor", checks=(criteria,)),
        stage("verifier", checks=(test,), left_out={"lint": "there is none"}),
        stage("tester", checks=(test, lint)),
        stage("reader", left_out={"test": "there is none"}),
    )
    assert unverified_stages(plan, {}) == ("reader",)
    assert unverified_stages(plan, {test.baseline: Baseline(("a",))}) == ("reader",)
    unusable = {test.baseline: Baseline(unusable="it fails")}
    assert unverified_stages(plan, unusable) == ("verifier", "reader")


def test_it_is_said_with_the_last_check_that_could_have_been_used() -> None:
    test, lint = Check("test", "t", regressions=True), Check("lint", "l", regressions=True)
    plan = plan_of(stage("build"), stage("verifier", checks=(test, lint)))
    assert unverified_text(plan, {}) == ""
    at, unusable = Cursor("0", 1, 0), Baseline(unusable="it fails")
    facts = [
        f.CheckCompleted(one.name, 1, "fail", baseline=one.baseline, found=unusable) for one in (test, lint)
    ]
    events = history((f.SessionStarted("pipeline", "run-1", plan, "1.0", format=f.LOG_FORMAT), None))
    for fact, more in zip(
        facts, ("", ". Only an agent verifies the work: no check of stage verifier can be used"), strict=True
    ):
        events = history(*((one.fact, one.cursor) for one in events), (fact, at))
        line = run_line(events[-1], plan, fold_events(events).state)
        assert line
        said = f"check {fact.check} is not used in this run: before the first agent, it fails"
        assert line.text == f"{said}{more}"
