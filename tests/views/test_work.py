"""What the agents of a run did, from its events: folded, as text, as JSON."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, event, plan_of, stage, started

from agentforge.model import facts as f
from agentforge.model.artifact import Artifact, ContextUse
from agentforge.model.changes import Changes, FileChange, LeftInGit
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Plan
from agentforge.model.result import Decision, Result, Usage, WorkReport
from agentforge.views.lines.work import (
    changed_row,
    changes_text,
    file_lines,
    output_lines,
    show_command,
    stage_title,
    stages_of,
    work_line,
    work_rows,
)
from agentforge.views.record import RunRecord, RunTrees, record_of
from agentforge.views.work import IterationWork, iteration_json

A, B, C, D = (letter * 40 for letter in "abcd")
PLAN = plan_of(stage("plan", 3), block("claude codex", stage("ideas")))
CHANGES = Changes((FileChange("a.py", "modified", 3, 1), FileChange("new", "renamed", 0, 0, "old")))


class Story:
    """Events in order, a second apart."""

    def __init__(self, plan: Plan = PLAN) -> None:
        self.events: list[Event] = []
        self.add(started(plan))

    def add(self, fact: f.AnyFact, at: Cursor | None = None) -> "Story":
        seq = len(self.events) + 1
        self.events.append(event(seq, fact, at, seq))
        return self

    def begin(self, at: Cursor, attempt: int = 1) -> "Story":
        if attempt == 1:
            self.add(f.IterationStarted("plan", "plan", "claude", "opus", "0"), at)
        return self.add(f.AttemptStarted(attempt, 2, "claude", "opus"), at)

    def complete(self, at: Cursor, tree: str | None = None, **more: Any) -> "Story":
        result = more.pop("result", Result(summary="did it"))
        given = {"stage": "plan", "attempt": 1, "duration_ms": 1500, "decision": result.decision, **more}
        file = f"stage-00-plan/iterations/{at.iteration:03d}/result.json"
        given |= {"reason": result.reason, "result_file": file, "result": result, "tree": tree}
        return self.add(f.IterationCompleted(**given), at)

    @property
    def fold(self) -> RunRecord:
        return record_of(self.events)

    @property
    def last(self) -> IterationWork:
        return self.fold.iterations[-1]


def here(iteration: int = 1) -> Cursor:
    return Cursor("0", 1, iteration)


def entered(story: Story | None = None) -> Story:
    return (story or Story()).add(f.NodeStarted("plan", folder="stage-00-plan"), Cursor("0", 1, 0))


def test_an_iteration_has_its_stage_folder_result_usage_and_attempts() -> None:
    story = entered().begin(here())
    used = Usage(10, 2, cost_usd=0.5)
    failed = f.ErrorOccurred(FailureKind.PROVIDER_CRASHED, "it died", "plan", 1, usage=used)
    story.add(failed, here()).begin(here(), attempt=2).complete(here(), attempt=2, usage=used)
    work = story.last
    assert (work.name, work.path, work.visit, work.iteration) == ("plan", "0", 1, 1)
    assert (work.status, work.duration_seconds, work.folder) == (
        "completed",
        1.5,
        "stage-00-plan/iterations/001",
    )
    assert work.result is not None
    assert work.result.summary == "did it"
    assert [(one.number, one.status, one.error) for one in work.attempts] == [
        (1, "failed", "provider_crashed: it died"),
        (2, "completed", ""),
    ]
    assert (work.spending.cost_usd, work.spending.input_tokens) == (1.0, 20)


@pytest.mark.parametrize("iteration", [1, 2], ids=["between two", "not prepared"])
def test_a_failure_outside_of_an_attempt_is_of_no_iteration(iteration: int) -> None:
    story = entered().begin(here(1)).add(f.TreeTaken(1, tree=A), here(1)).complete(here(1), B)
    before = story.fold
    story.add(f.ErrorOccurred(FailureKind.CONTEXT_TOO_LARGE, "no room", "plan", 0), here(iteration))
    assert (story.fold.iterations, story.fold.trees) == (before.iterations, before.trees)


def test_the_tree_before_is_the_latest_unless_something_else_changed_the_files() -> None:
    story = entered().begin(here(1)).add(f.TreeTaken(1, tree=A, omitted=2), here(1)).complete(here(1), B)
    story.begin(here(2)).complete(here(2), C)
    story.begin(here(3)).add(f.TreeTaken(1, tree=D), here(3)).complete(here(3), D)
    fold = story.fold
    assert [(work.tree_before, work.tree_after) for work in fold.iterations] == [(A, B), (B, C), (D, D)]
    assert fold.iterations[0].omitted == 2
    assert fold.trees == RunTrees(A, D)


def test_the_tree_before_is_that_of_the_first_attempt_and_lost_ones_count() -> None:
    story = entered().begin(here()).add(f.TreeTaken(1, tree=A), here())
    story.add(f.AttemptLost(1, "it died", started=True, tree=B), here())
    assert (story.last.tree_before, story.last.tree_after, story.last.status) == (A, B, "lost")
    story.begin(here(), attempt=2).add(f.TreeTaken(2, tree=C), here())
    story.add(f.AttemptCancelled(2, "stopped", tree=D), here())
    assert (story.last.tree_before, story.last.tree_after, story.last.status) == (A, D, "cancelled")
    story.begin(here(), attempt=3)
    story.add(f.AttemptLost(3, "no start", started=False), here())
    assert (story.last.tree_before, story.last.tree_after) == (A, D)


def test_an_unknown_tree_and_one_that_is_none_are_unknown() -> None:
    story = entered().begin(here(1)).add(f.TreeTaken(1, tree=A), here(1)).complete(here(1))
    assert (story.last.tree_before, story.last.tree_after) == (A, None)
    story.begin(here(2)).add(f.TreeTaken(1, "after", problem="too many files"), here(2)).complete(here(2))
    unknown = (story.last.tree_before, story.last.tree_after, story.last.tree_problem)
    assert unknown == (None, None, "too many files")
    story.begin(here(3)).add(f.TreeTaken(1, tree="--output=x"), here(3)).complete(here(3), "HEAD")
    assert (story.last.tree_before, story.last.tree_after) == (None, None)
    assert story.fold.trees == RunTrees(A, A)


def test_branches_that_work_at_the_same_time_share_their_changes() -> None:
    p, q = Cursor("1.0", 1, 1, "claude"), Cursor("1.0", 1, 1, "codex")
    story = Story().add(f.NodeStarted("duel", "parallel", providers=("claude", "codex")), Cursor("1", 1, 0))
    story.begin(p).add(f.TreeTaken(1, tree=A), p).begin(q).complete(p, B).complete(q, C)
    first, second = story.fold.iterations
    assert (first.name, second.name) == ("ideas@claude", "ideas@codex")
    assert (first.tree_before, first.tree_after, first.changed_by_others) == (A, B, True)
    assert (second.tree_before, second.tree_after, second.changed_by_others) == (A, C, True)
    assert first.folder == "parallel-01-duel/providers/claude/stage-00-ideas/iterations/001"


def test_a_judge_belongs_to_its_iteration() -> None:
    said = f.JudgeResult(stop=True, reason="enough", confidence=0.9)
    story = entered().begin(here()).complete(here())
    story.add(f.JudgeCompleted("success", said, usage=Usage(5, 1, cost_usd=0.1)), here())
    assert story.last.judge is not None
    assert (story.last.judge.stop, story.last.spending.cost_usd) == (True, 0.1)
    assert dict(rows(story.last))["Judge"] == "stop: enough"
    failed = f.JudgeCompleted("failed", f.JudgeResult(stop=False, reason="x"), error="not logged in")
    assert dict(rows(story.add(failed, here()).last))["Judge"] == "failed: not logged in"
    go_on = f.JudgeCompleted("success", f.JudgeResult(stop=False, reason=""))
    assert dict(rows(story.add(go_on, here()).last))["Judge"] == "continue"


def test_a_damaged_log_is_shown_as_far_as_it_goes() -> None:
    unknown = Cursor("7", 1, 2)
    story = Story().add(f.TreeTaken(1, tree=A), unknown).add(f.TimerFired("delay")).complete(unknown, B)
    work = story.last
    assert (work.stage, work.attempts, work.folder) == ("7", (), "stage-00-plan/iterations/002")
    story.begin(Cursor("8", 1, 1))
    assert (story.last.stage, story.last.folder) == ("plan", "")


# -- text


def rows(
    work: IterationWork, changes: Changes | None = None, status: str = "completed"
) -> list[tuple[str, str]]:
    return [(row.label, row.value) for row in work_rows(work, changes, status)]


def test_rows_of_a_completed_iteration() -> None:
    result = Result(summary="did\nit\x1b", decision=Decision.STOP, reason="all done")
    used = Usage(1200, 30, cost_usd=0.25, model="opus")
    work = entered().begin(here()).complete(here(), result=result, usage=used).last
    assert rows(work, CHANGES) == [
        ("Status", "completed"),
        ("Provider", "claude / opus"),
        ("Decision", "stop"),
        ("Summary", "did it�"),
        ("Reason", "all done"),
        ("Duration", "1.5s"),
        ("Tokens", "1,200 in, 30 out"),
        ("Cost", "$0.25"),
        ("Changed", "2 files, +3 -1 lines"),
    ]


def test_rows_of_a_failed_and_of_a_running_iteration() -> None:
    story = entered().begin(here())
    assert rows(story.last, None, "interrupted")[0] == ("Status", "interrupted")
    assert rows(story.last, None, "running") == [
        ("Status", "running"),
        ("Provider", "claude / opus"),
        ("Changed", "not recorded"),
    ]
    story.add(f.TreeTaken(1, tree=A), here())
    for status in ("running", "interrupted"):
        assert dict(rows(story.last, None, status))["Changed"] == "available when the iteration ends"
    story.add(f.ErrorOccurred(FailureKind.AGENT_ERROR, "no", "plan", 1), here())
    row = next(row for row in work_rows(story.last, None, "failed") if row.label == "Attempts")
    assert row.lines == ("1 claude failed after 2.0s: agent_error: no",)
    story.add(f.AttemptStarted(2, 2, "command", ""), here())
    assert dict(rows(story.last))["Provider"] == "command"
    bare = IterationWork("0", "plan", 1, 1, story.events[0].at)
    assert [label for label, _ in rows(bare)] == ["Status", "Changed"]


def test_rows_of_what_was_left_for_git() -> None:
    stays = LeftInGit("sub", "submodule")
    moved = LeftInGit("a b/.git", "repository", "it has hooks", "a b/.git.disabled")
    inc = LeftInGit("inc", "settings", "new", "inc.disabled")
    story = entered().add(f.GitLeft((stays,)), here(7)).begin(here()).add(f.GitLeft((stays,)), here())
    row = next(row for row in work_rows(story.last, None, "running") if row.label == "For git")
    assert (row.value, row.lines) == ("1 item left", ("sub, a new submodule in the index",))
    story.add(f.GitLeft((stays, moved, inc), 2), here())
    assert iteration_json(story.last, None)["git_left"] == (stays, moved, inc)
    row = next(row for row in work_rows(story.last, None, "running") if row.label == "For git")
    assert row.value == "5 items left"
    assert row.lines[1:] == (
        "a b/.git, a new repository: it has hooks; renamed to a b/.git.disabled",
        "inc: new; renamed to inc.disabled",
        "to accept what was renamed, look at it, then: mv 'a b/.git.disabled' 'a b/.git'",
    )


def test_changes_are_unknown_reported_shared_or_nothing() -> None:
    work = entered().begin(here()).add(f.TreeTaken(1, "after", problem="no git"), here()).last
    assert changed_row(work, None).value == "not recorded (no git)"
    told = Result(work=WorkReport(files_touched=("a.py", "b.py")))
    reported = entered().begin(here()).complete(here(), result=told).last
    assert changed_row(reported, None).value == "as reported by the agent: a.py, b.py"
    assert changed_row(reported, Changes()).value == "nothing"
    left_out = entered().begin(here()).add(f.TreeTaken(1, tree=A, omitted=1), here()).last
    assert changed_row(left_out, CHANGES).value == "2 files, +3 -1 lines (1 large file left out)"
    p, q = Cursor("1.0", 1, 1, "claude"), Cursor("1.0", 1, 1, "codex")
    shared = Story().begin(p).begin(q).last
    assert "also by other branches at the same time" in changed_row(shared, CHANGES).value


def test_lines_of_files_are_aligned_and_limited() -> None:
    files = (
        FileChange("src/long-name.py", "modified", 12, 3),
        FileChange("a\x1b[31m", "added", 1, 0),
        FileChange("image.png", "deleted"),
        FileChange("new.py", "renamed", 0, 0, "old.py"),
        FileChange("link", "retyped", 0, 2),
    )
    assert list(file_lines(Changes(files), most=4)) == [
        "M src/long-name.py  +12 -3",
        "A a�[31m            +1",
        "D image.png         binary",
        "R old.py → new.py",
        "and 1 more",
    ]
    assert list(file_lines(Changes())) == []
    assert changes_text(Changes(files)) == "5 files, +13 -5 lines"


def test_a_line_of_the_list_is_cut_to_the_columns() -> None:
    story = entered().begin(here()).complete(here(), usage=Usage(1, 1, cost_usd=0.5))
    line = work_line(story.last, CHANGES, "completed", 80)
    assert (line.mark, line.title) == ("done", "  1  1.5s  2 files +3 -1  $0.50  did it")
    assert work_line(story.last, Changes(), "completed", 14).title == "  1  1.5s  $0…"
    story.begin(here(2))
    assert work_line(story.last, None, "running", 80) == work_line(story.last, None, "running", 80)
    assert work_line(story.last, None, "running", 80).title == "  2  running"
    assert work_line(story.last, None, "interrupted", 80).mark == "stopped"
    story.add(f.ErrorOccurred(FailureKind.AGENT_ERROR, "no", "plan", 1), here(2))
    assert work_line(story.last, None, "failed", 80).title == "  2  2.0s  failed: agent_error: no"
    bare = IterationWork("0", "plan", 2, 1, story.events[0].at)
    assert work_line(bare, None, "running", 80).title == "  1  running"
    assert stage_title(bare, [bare]) == "plan, visit 2"


def test_an_iteration_in_which_the_agent_asked_says_so() -> None:
    done = entered().begin(here()).complete(here()).last
    assert done.result is not None
    asked = replace(done, result=replace(done.result, decision=Decision.ASK, summary="which database"))
    assert work_line(asked, None, "completed", 80).title == "  1  1.5s  asked: which database"
    silent = replace(asked, result=replace(asked.result, summary=""))
    assert work_line(silent, None, "completed", 80).title == "  1  1.5s  asked"


def test_an_iteration_that_was_cancelled_with_its_run_has_its_mark() -> None:
    story = entered().begin(here())
    assert work_line(story.last, None, "aborted", 80).title == "  1  cancelled"
    assert work_line(story.last, None, "aborted", 80).mark == "failed"
    story.add(f.AttemptCancelled(1, "stopped"), here())
    assert work_line(story.last, None, "aborted", 80).mark == "failed"
    assert work_line(story.last, None, "paused", 80).mark == "stopped"


def test_a_command_shows_the_same_iteration_again() -> None:
    """Stages of the same name are told apart by their paths, earlier visits by their number."""
    at = entered().events[0].at
    works = [
        IterationWork("0.0", "build", 1, 1, at),
        IterationWork("0.0", "build", 2, 1, at),
        IterationWork("1", "build", 1, 3, at),
        IterationWork("2.0", "ideas", 1, 1, at, "p"),
        IterationWork("3.0", "ideas", 1, 2, at, "p"),
        IterationWork("4", "check", 1, 1, at),
    ]
    assert [show_command(work, works, "s", "agentforge") for work in works] == [
        "agentforge show --visit 1 s 0.0 1",
        "agentforge show s 0.0 1",
        "agentforge show s 1 3",
        "agentforge show s 2.0@p 1",
        "agentforge show s 3.0@p 2",
        "agentforge show s check 1",
    ]
    assert show_command(works[5], works, "-s", "af", "--diff") == "af show --diff -- -s check 1"
    titles = [stage_title(work, works) for work in works]
    assert titles == [
        "build (0.0)",
        "build (0.0), visit 2",
        "build (1)",
        "ideas@p (2.0)",
        "ideas@p (3.0)",
        "check",
    ]


def test_iterations_are_listed_by_visit() -> None:
    story = entered().begin(here(1)).begin(Cursor("0", 2, 1)).begin(here(2))
    listed = [[(work.visit, work.iteration) for work in works] for works in stages_of(story.fold.iterations)]
    assert listed == [[(1, 1), (1, 2)], [(2, 1)]]


def test_the_end_of_the_output_is_shown() -> None:
    assert list(output_lines(None)) == []
    text = "".join(f"{n}\n\n" for n in range(20))
    lines = list(output_lines(text))
    assert (lines[0], lines[-1], len(lines)) == ("… 8 lines before", "19", 13)


def test_the_json_view_has_what_is_known() -> None:
    story = entered().begin(here())
    running = iteration_json(story.last, None)
    assert [running[key] for key in ("decision", "summary", "changed", "cost_usd")] == [None, "", None, None]
    shown = iteration_json(story.complete(here(), B).last, CHANGES)
    assert (shown["decision"], shown["summary"], shown["tree_after"]) == (Decision.CONTINUE, "did it", B)
    assert shown["changed"] == CHANGES.files


def test_iterations_have_their_item_artifact_and_context() -> None:
    context = ContextUse("focused", 90, 100)
    begun = f.IterationStarted("plan", "plan", "claude", "opus", "0", item="s1", context=context)
    story = entered().add(begun, here()).begin(here(), attempt=2)
    assert (story.last.item, story.last.context, story.last.artifact) == ("s1", context, None)
    left = Artifact("a.json", 9, "0" * 64, value={"a": 1})
    story.complete(here(), attempt=2, artifact=left)
    assert story.last.artifact == left
    shown = iteration_json(story.last, None)
    assert (shown["item"], shown["context"]) == ("s1", context)
    assert shown["artifact"] == Artifact("a.json", 9, "0" * 64)
