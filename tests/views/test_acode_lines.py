"""The lines of `acode`, from the events of a run of the preset's stages."""

from datetime import UTC, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, plan_of, stage
from tests.views.samples import NOON
from tests.views.test_work import Story

from agentforge.engine.checks.feedback import END_OF_OUTPUT
from agentforge.engine.items import elements_of, planned
from agentforge.model import facts as f
from agentforge.model.artifact import Artifact, ArtifactRule, PlannedItem
from agentforge.model.check import Baseline, CheckCounts
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.failure import FailureKind
from agentforge.model.plan import ArtifactSource, InputSources, Items
from agentforge.model.request import Feedback
from agentforge.model.result import Decision, Result
from agentforge.views.lines.acode import MAX_LISTED, acode_lines, acode_status_rows
from agentforge.views.results import RunInfo
from agentforge.views.run_model import RunModel
from agentforge.views.status import status_view

RULE = ArtifactRule({"type": "object"})
PLAN = plan_of(
    stage("planner", artifact=RULE),
    stage(
        "executor",
        termination=Items(1000, "planner.steps"),
        artifact=RULE,
        sources=InputSources(items=ArtifactSource("0")),
    ),
    stage("verifier", artifact=RULE),
    stage("reviewer", artifact=RULE),
    stage("docs"),
    block("claude codex", stage("vote")),
)
PATHS = {node.id: node.path for node in PLAN.nodes}
STEPS: list[dict[str, Any]] = [
    {"id": "s1", "title": "Analyzing code"},
    {"id": "s2", "title": "Creating validator."},
    {"id": "s3"},
]


def accepted(value: dict[str, Any] | None) -> Artifact:
    return Artifact("artifact.json", 100, "0" * 64, "1.0", value)


class LoopStory(Story):
    def __init__(self) -> None:
        super().__init__(PLAN)
        self.visits = dict.fromkeys(PATHS, 0)
        self.iterations = dict.fromkeys(PATHS, 0)
        self.feedback: Feedback | None = None
        self.steps = STEPS

    def at(self, id: str) -> Cursor:
        return Cursor(PATHS[id], self.visits[id], self.iterations[id])

    def say(self, id: str, *facts: f.AnyFact) -> "LoopStory":
        for fact in facts:
            self.add(fact, self.at(id))
        return self

    def enter(self, id: str) -> "LoopStory":
        self.visits[id] += 1
        self.iterations[id] = 0
        return self.say(id, f.NodeStarted(id, PATHS[id], run=self.visits[id]))

    def leave(self, id: str, to: str = "") -> "LoopStory":
        left = Destination(PATHS[to], (1,)) if to else None
        return self.say(id, f.NodeCompleted(id, "enough", 1, next=left))

    def begin(self, id: str, item: str = "") -> "LoopStory":
        self.iterations[id] += 1
        begun = f.IterationStarted(id, id, "claude", "opus", "0", item=item)
        return self.say(id, begun, f.AttemptStarted(1, 4, "claude", "opus", resume="s"))

    def end(self, id: str, artifact: dict[str, Any] | None = None, **more: Any) -> "LoopStory":
        left = accepted(artifact) if artifact is not None else None
        self.complete(self.at(id), stage=id, artifact=left, **more)
        return self

    def plan(self, steps: list[dict[str, Any]] | None = None) -> "LoopStory":
        self.steps = STEPS if steps is None else steps
        self.enter("planner").begin("planner").end("planner", {"steps": self.steps})
        return self.leave("planner", "executor").planned()

    def planned(self) -> "LoopStory":
        self.enter("executor")
        state = self.fold.model.state
        assert state is not None
        elements = elements_of({"steps": self.steps}, "steps", 1000)
        found = [one for one in elements if not isinstance(one, str)]
        known = tuple(state.items.get(PATHS["executor"], {}).values())
        fact = planned(found, known, self.feedback, self.visits["executor"], "0" * 64)
        self.feedback = None
        return self.say("executor", fact)

    def step(self, id: str) -> "LoopStory":
        return self.begin("executor", id).end("executor").say("executor", f.ItemEnded(id, "done"))

    def executed(self) -> "LoopStory":
        for step in self.steps:
            self.step(step["id"])
        return self.say("executor", f.StageVerdictReached("pass")).leave("executor", "verifier")

    def back(self, id: str, to: str, *, items: tuple[str, ...] = (), **more: Any) -> "LoopStory":
        """The stage ends with a verdict that leads back."""
        feedback = Feedback("again", id, items=items)
        next = Destination(PATHS[to], (1,))
        verdict = f.StageVerdictReached("fail", **more)
        route = f.StageTransitioned(id, to, "fail", cycle=2, of=3, next=next, feedback=feedback)
        self.feedback = feedback if to == "executor" else None
        return self.say(id, verdict, route).leave(id, to)

    @property
    def lines(self) -> list[str]:
        run, lines = RunModel(), []
        for event in self.events:
            run.apply(event)
            for line in acode_lines(event, run):
                lines.append(f"[{line.subject}] {line.text}" if line.subject else line.text)
        return lines

    def since(self, before: int) -> list[str]:
        return self.lines[before:]


def test_a_run_that_needs_one_pass() -> None:
    story = LoopStory().plan().executed().enter("verifier")
    story.say("verifier", f.CheckStarted("test"), f.CheckCompleted("test", 1, "pass"))
    story.say("verifier", f.CheckStarted("lint"), f.CheckCompleted("lint", 1, "pass"))
    story.begin("verifier").end("verifier", {}).say("verifier", f.StageVerdictReached("pass"))
    story.leave("verifier", "reviewer").enter("reviewer").begin("reviewer").end("reviewer", {})
    story.say("reviewer", f.StageVerdictReached("pass")).leave("reviewer", "docs").enter("docs")
    story.begin("docs").end("docs").leave("docs")
    story.add(f.SessionCompleted("all_loops_complete"))
    assert story.lines == [
        "",
        "[PLANNER] Analyzing request...",
        "[PLANNER] Created 3-step plan:",
        "  1. Analyzing code",
        "  2. Creating validator.",
        "  3. s3",
        "",
        "[EXECUTOR] Step 1: Analyzing code...",
        "[EXECUTOR] Step 1 complete",
        "[EXECUTOR] Step 2: Creating validator...",
        "[EXECUTOR] Step 2 complete",
        "[EXECUTOR] Step 3: s3...",
        "[EXECUTOR] Step 3 complete",
        "",
        "[VERIFIER] Validating results...",
        "[VERIFIER] Running tests...",
        "[VERIFIER] All tests passed ✓",
        "[VERIFIER] Running lint...",
        "[VERIFIER] Lint passed ✓",
        "",
        "[REVIEWER] Reviewing changes...",
        "[REVIEWER] Quality check passed ✓",
        "",
        "[DOCS] Started...",
        "[DOCS] Complete",
        "",
        "✓ Task complete",
    ]


def test_a_stage_that_only_an_agent_verified_says_that_it_passed() -> None:
    story = LoopStory().plan().executed().enter("verifier").begin("verifier").end("verifier", {})
    assert (
        story.say("verifier", f.StageVerdictReached("pass")).lines[-1] == "[VERIFIER] Verification passed ✓"
    )


@pytest.mark.parametrize(
    ("signatures", "feedback", "said"),
    [
        (("exit status 1: email format not validated",), "", "email format not validated"),
        (("exit status 1: <n> failed",), f"check 'test': fail{END_OF_OUTPUT}.F\n2 failed\n", "2 failed"),
        (("tests/test_email.py::test_a: AssertionError",), "", "tests/test_email.py::test_a: AssertionError"),
        ((), "", "2 failed"),
    ],
)
def test_a_failing_command_is_repaired_in_a_step_of_its_own(
    signatures: tuple[str, ...], feedback: str, said: str
) -> None:
    story = LoopStory().plan().executed().enter("verifier")
    before = len(story.lines)
    counts = CheckCounts(1, 2)
    failed = f.CheckCompleted("test", 1, "fail", counts=counts, signatures=signatures, reason="2 failed")
    failed = replace(failed, feedback=feedback)
    story.say("verifier", f.CheckStarted("test"), failed).back("verifier", "executor", failing=("test",))
    story.planned().step("repair-2")
    assert story.since(before) == [
        "[VERIFIER] Running tests...",
        f"[VERIFIER] Test failure: {said}",
        "[VERIFIER] ✗ Verification failed",
        "",
        "[EXECUTOR] Retry 1/3: Step 4",
        "[EXECUTOR] Adjusting based on feedback...",
        "[EXECUTOR] Step 4: Repair test...",
        "[EXECUTOR] Step 4 complete",
    ]


def test_a_verifier_names_the_steps_that_are_done_again() -> None:
    story = LoopStory().plan().executed().enter("verifier").begin("verifier")
    checks: list[Any] = [
        {"name": "the format", "status": "fail", "reason": "not validated"},
        {"name": "the rest", "status": "pass"},
        {"name": 7, "status": "fail"},
        "no object",
    ]
    before = len(story.lines)
    story.end("verifier", {"checks": checks}).back("verifier", "executor", items=("s1", "s2"), reason="x")
    story.planned()
    assert story.since(before) == [
        "[VERIFIER] Check failure: the format: not validated",
        "[VERIFIER] ✗ Verification failed",
        "",
        "[EXECUTOR] Retry 1/3: Steps 1, 2",
        "[EXECUTOR] Adjusting based on feedback...",
    ]


def test_a_rejection_leads_to_another_plan_whose_differences_are_listed() -> None:
    story = LoopStory().plan().executed().enter("reviewer").begin("reviewer")
    dimensions: dict[str, Any] = {
        "quality": {"level": "poor", "issues": ["Missing edge case handling", 7]},
        "safety": {"level": "good", "issues": None},
        "style": None,
    }
    before = len(story.lines)
    story.end("reviewer", {"dimensions": dimensions}).back("reviewer", "planner", reason="see above")
    steps = [STEPS[0], {"id": "s2", "title": "Use a library"}, {"id": "s4", "title": "Handle edge cases"}]
    story.plan(steps).step("s2").step("s4")
    assert story.since(before) == [
        "[REVIEWER] Issue: Missing edge case handling",
        "[REVIEWER] Requesting re-plan",
        "",
        "[PLANNER] Cycle 2/3: Adjusting plan...",
        "[PLANNER] Added step: Handle edge cases",
        "[PLANNER] Changed step: Use a library",
        "[PLANNER] Dropped step: s3",
        "",
        "[EXECUTOR] Step 2: Use a library...",
        "[EXECUTOR] Step 2 complete",
        "[EXECUTOR] Step 3: Handle edge cases...",
        "[EXECUTOR] Step 3 complete",
    ]


def test_a_rejection_without_a_list_of_issues_says_its_reason() -> None:
    story = LoopStory().plan().enter("reviewer").begin("reviewer").end("reviewer")
    before = len(story.lines)
    story.say("reviewer", f.StageVerdictReached("reject", "it is too slow"))
    assert story.since(before) == ["[REVIEWER] Issue: it is too slow"]


def test_lists_of_an_agent_are_cut() -> None:
    steps = [{"id": f"s{number}"} for number in range(MAX_LISTED + 2)]
    story = LoopStory().plan(steps)
    assert story.lines[-2:] == [f"  {MAX_LISTED}. s{MAX_LISTED - 1}", "  and 2 more"]
    issues = [f"issue {number}" for number in range(MAX_LISTED + 3)]
    story.enter("reviewer").begin("reviewer").end("reviewer", {"dimensions": {"quality": {"issues": issues}}})
    story.say("reviewer", f.StageVerdictReached("reject"))
    last = f"issue {MAX_LISTED - 1}"
    assert story.lines[-2:] == [f"[REVIEWER] Issue: {last}", "[REVIEWER] Issue: and 3 more"]


def fail(
    story: LoopStory, id: str, attempt: int, message: str = "Agent reported error: File write error"
) -> None:
    failed = f.ErrorOccurred(FailureKind.AGENT_ERROR, message, id, attempt)
    if attempt > 1:
        story.say(id, f.AttemptStarted(attempt, 4, "claude", "opus"))
    story.say(id, failed)


def climbed(story: LoopStory, id: str) -> LoopStory:
    soon = NOON + timedelta(hours=1)
    for attempt in range(1, 7):
        fail(story, id, attempt)
        if attempt < 4:
            story.say(id, f.RetryScheduled(attempt + 1, 4, soon, "again"), f.TimerFired("retry"))
        elif attempt < 6:
            again = f.StageRetried(attempt - 3, 2, soon, FailureKind.AGENT_ERROR, "again")
            story.say(id, again, f.TimerFired("retry"))
    return story


def asked(
    reason: str = "retries_exhausted", options: tuple[str, ...] = ("resume", "retry", "cancel")
) -> f.RequestOpened:
    return f.RequestOpened("r-1", "escalation", "1/1", reason, "Fix it?", options)


LADDER = """
[EXECUTOR] Step 1: Analyzing code...
[EXECUTOR] Step 1 failed: File write error
[EXECUTOR] Retry 1/3...
[EXECUTOR] Retry 2/3...
[EXECUTOR] Retry 3/3...
[EXECUTOR] Step retry limit reached

[ORCHESTRATOR] Stage retry 1/2...
[EXECUTOR] Retrying from step 1...
[EXECUTOR] Step 1 failed again

[ORCHESTRATOR] Stage retry 2/2...
[EXECUTOR] Step 1 failed again

[ORCHESTRATOR] Task aborted
[ORCHESTRATOR] Session paused: Human intervention required

⚠ Session paused. Use 'acode resume' after fixing the issue."""


def test_a_step_that_always_fails_climbs_to_a_person() -> None:
    story = LoopStory().plan()
    before = len(story.lines)
    climbed(story.begin("executor", "s1"), "executor").say("executor", asked())
    story.add(f.SessionPaused("retries_exhausted"))
    assert story.since(before) == LADDER.split("\n")


def test_a_stage_without_steps_climbs_the_same_ladder() -> None:
    story = LoopStory().enter("planner")
    before = len(story.lines)
    climbed(story.begin("planner"), "planner")
    assert story.since(before) == [
        "[PLANNER] Failed: File write error",
        "[PLANNER] Retry 1/3...",
        "[PLANNER] Retry 2/3...",
        "[PLANNER] Retry 3/3...",
        "[PLANNER] Retry limit reached",
        "",
        "[ORCHESTRATOR] Stage retry 1/2...",
        "[PLANNER] Retrying...",
        "[PLANNER] Failed again",
        "",
        "[ORCHESTRATOR] Stage retry 2/2...",
        "[PLANNER] Failed again",
    ]


def test_a_failure_that_is_tried_once_names_no_limit_of_retries() -> None:
    story = LoopStory().plan().begin("executor", "s1")
    before = len(story.lines)
    fail(story, "executor", 1, "not logged in")
    story.say("executor", asked())
    assert story.since(before) == [
        "[EXECUTOR] Step 1 failed: not logged in",
        "",
        "[ORCHESTRATOR] Task aborted",
    ]


def test_without_retries_of_the_stage_the_limit_is_said_before_the_question() -> None:
    story = LoopStory().plan().begin("executor", "s1")
    before = len(story.lines)
    fail(story, "executor", 1)
    story.say("executor", f.RetryScheduled(2, 2, NOON + timedelta(hours=1), "again"), f.TimerFired("retry"))
    fail(story, "executor", 2)
    story.say("executor", asked())
    assert story.since(before)[2:] == [
        "[EXECUTOR] Step retry limit reached",
        "",
        "[ORCHESTRATOR] Task aborted",
    ]


def test_a_step_that_an_agent_gave_up_says_why() -> None:
    story = LoopStory().plan().begin("executor", "s1").end("executor")
    story.say("executor", f.ItemEnded("s1", "failed", "the disk is full")).begin("executor", "s2")
    story.say("executor", f.ItemEnded("s2", "failed")).say(
        "executor", f.StageVerdictReached("fail", "s1, s2")
    )
    assert story.lines[-3:] == [
        "[EXECUTOR] Step 1 failed: the disk is full",
        "[EXECUTOR] Step 2: Creating validator...",
        "[EXECUTOR] Step 2 failed",
    ]


def answered(kind: Any, options: tuple[str, ...]) -> f.RequestOpened:
    return f.RequestOpened("r-1", kind, "k", "why", "Which?", options)


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        (
            [f.SessionPaused("requested")],
            [
                "[ORCHESTRATOR] Session paused: on request",
                "",
                "⚠ Session paused. Use 'acode resume' to continue.",
            ],
        ),
        (
            [answered("approval", ("approve", "reject")), f.AwaitingApproval(("r-1",))],
            [
                "[ORCHESTRATOR] Approval: Which? [approve, reject]",
                "[ORCHESTRATOR] Session paused: approval required",
                "",
                "⚠ Session paused. It continues when it is answered.",
            ],
        ),
        (
            [asked("cycle_limit"), f.SessionPaused("cycle_limit")],
            [
                "",
                "[ORCHESTRATOR] Cycle limit reached",
                "[ORCHESTRATOR] Session paused: Human intervention required",
                "",
                "⚠ Session paused. Use 'acode resume' after fixing the issue.",
            ],
        ),
        (
            [f.SessionFailed(FailureKind.AGENT_ERROR, "Agent reported error: no", "planner")],
            ["", "[ORCHESTRATOR] Task failed: no"],
        ),
        ([f.SessionAborted("changed my mind")], ["", "[ORCHESTRATOR] Task cancelled: changed my mind"]),
        (
            [f.CheckCompleted("test", 1, "error", reason="no shell")],
            ["[PLANNER] Check test had an error: no shell"],
        ),
        ([f.CheckStarted("lint", baseline="b"), f.CheckCompleted("lint", 1, "fail", baseline="b")], []),
        (
            [f.CheckCompleted("lint", 1, "fail", baseline="b", found=Baseline(unusable="it failed"))],
            ["[PLANNER] Check lint is not used in this run: before the first agent, it failed"],
        ),
        (
            [f.CheckCompleted("lint", 1, "fail", changed=("a.py",))],
            ["[PLANNER] Check lint is void: files changed while it ran (a.py)"],
        ),
        ([f.AttemptLost(1, "the engine died", started=True)], ["[PLANNER] Lost attempt 1: the engine died"]),
        ([f.DelayStarted(NOON)], []),
        (
            [f.StageTransitioned("planner", "docs", "pass", skipped=("executor",))],
            ["[PLANNER] Continues with docs, skipping executor"],
        ),
        (
            [f.StageTransitioned("planner", "verifier", "fail", cycle=2, of=3)],
            ["", "[VERIFIER] Cycle 2/3: Starting again..."],
        ),
        (
            [f.NodeCompleted("planner", "x", 1, verdict="fail", overridden_by="Ada")],
            ["[PLANNER] Was accepted by Ada despite verdict fail"],
        ),
        ([f.IterationStarted("planner", "planner", "claude", "opus", "0", item="gone")], []),
    ],
)
def test_other_events(facts: list[f.AnyFact], shown: list[str]) -> None:
    story = LoopStory().enter("planner").begin("planner")
    before = len(story.lines)
    assert story.say("planner", *facts).since(before) == shown


def test_a_question_of_an_agent_is_shown() -> None:
    result = Result(summary="which one?", decision=Decision.ASK)
    story = LoopStory().enter("planner").begin("planner").end("planner", result=result)
    assert story.lines[-1] == "[PLANNER] Asked a question after 1.5s: which one?"


def test_a_branch_is_named_with_its_stage() -> None:
    story = LoopStory()
    story.add(f.NodeStarted("duel", "5", kind="parallel", providers=("claude", "codex")), Cursor("5", 1, 0))
    inside = Cursor("5.0", 1, 1, "codex")
    story.add(f.StageVerdictReached("fail", "bad"), inside)
    story.add(f.StageCompleted("vote", "enough", 1), inside)
    assert story.lines == [
        "",
        "[DUEL] Started...",
        "[VOTE CODEX] Issue: bad",
        "[VOTE CODEX] ✗ Verdict fail",
        "[VOTE CODEX] Complete",
    ]


def test_a_planner_that_was_restarted_says_so_once() -> None:
    story = LoopStory().enter("planner").begin("planner")
    before = len(story.lines)
    story.say("planner", f.NodeRestarted("planner", "requested", "try again", "Ada", 0)).enter("planner")
    assert story.since(before) == ["[PLANNER] Is restarted by Ada, and runs again: try again"]


def test_steps_that_a_person_sent_back_have_no_number_of_a_pass() -> None:
    story = LoopStory().plan().step("s1")
    before = len(story.lines)
    said = Feedback("again", "Ada", items=("s1",))
    story.say("executor", f.NodeRestarted("executor", "rejected", "again", "Ada", 1, feedback=said))
    story.feedback = said
    assert story.planned().since(before) == [
        "[EXECUTOR] Was rejected by Ada, and runs again: again",
        "",
        "[EXECUTOR] Adjusting based on feedback...",
    ]


def test_a_list_of_items_outside_of_a_stage_has_no_titles() -> None:
    story = LoopStory()
    story.add(f.ItemsPlanned((PlannedItem("s1", "0"),), added=("s1",)))
    assert story.lines == ["[ORCHESTRATOR] Created 1-step plan:", "  1. s1"]


def rows(story: Story, *, has_node: bool = True, **changes: Any) -> dict[str, str]:
    model = story.fold.model
    assert model.plan is not None
    assert model.state is not None
    info = RunInfo("auth", "running", "/runs/auth", model.plan, model.state, model.summary, 7)
    view = status_view(replace(info, **changes), NOON)
    view = view if has_node else replace(view, node=None)
    return {row.label: row.value for row in acode_status_rows(view, NOON, UTC)}


def test_status_names_the_stage_and_the_step() -> None:
    story = LoopStory().plan().step("s1").begin("executor", "s2")
    where = {"Session": "auth", "Stage": "EXECUTOR", "Progress": "Step 2/3"}
    assert rows(story) == {**where, "Status": "running (PID 7)"}
    paused = rows(story.add(f.SessionPaused("requested")), status="paused")
    assert paused == {
        **where,
        "Status": "paused",
        "Pause reason": "on request",
        "Resume": "agentforge resume auth",
    }
    begun = rows(LoopStory().enter("planner"))
    assert (begun["Stage"], begun["Progress"]) == ("PLANNER", "Stage 1/6")
    assert "Progress" not in rows(LoopStory(), has_node=False)
    story.add(f.SessionCompleted("all_loops_complete"))
    assert rows(story, status="completed")["Stage"] == "COMPLETE"


def test_a_stage_that_a_person_skips_says_so() -> None:
    story = LoopStory()
    story.visits["verifier"] = 1
    story.say("verifier", f.NodeStarted("verifier", "2", skipped=True))
    story.say("verifier", f.StageVerdictReached("pass", "it is urgent", "skipped", skipped_by="Ada"))
    assert story.lines == ["", "[VERIFIER] Skipped by Ada: it is urgent"]


def test_nothing_is_shown_before_a_run_has_a_plan() -> None:
    assert acode_lines(LoopStory().events[0], RunModel()) == ()
