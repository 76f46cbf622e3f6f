"""What is shown of a parallel block: the inputs that come of it, its manifest, its branches' own state."""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace
from tests.engine.plans import NOON, block, event, nested, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.layout import RunLayout
from agentforge.model.plan import FromParallel, FromStage, InputSources, Judgment, Plan
from agentforge.model.result import Decision, Result
from agentforge.model.state import StageRecord
from agentforge.views.files.block import branch_file, manifest
from agentforge.views.files.context import ended_by, from_parallel, from_stage
from agentforge.views.history import History
from agentforge.views.stage_progress import stage_progress

LAYOUT = RunLayout.of("/project", "auth")


def in_run(path: str) -> str:
    return f"{LAYOUT.root}/{path}"


DUEL = block("codex claude", stage("draft", runs=3), stage("check", termination=Judgment(3)))
PLAN = plan_of(stage("plan", runs=2), DUEL)
SOURCE = FromParallel("draft", "duel", "1", ("claude", "codex"))


def history_of(
    *outputs: tuple[str, str | None, int, str | None], reasons: dict[str, str] | None = None
) -> History:
    """Iterations by path, provider and number, with what each left; and why stages ended."""
    history = History()
    for seq, (path, provider, number, output) in enumerate(outputs, 1):
        result = f"/r/{path}/{number}/result.json"
        fact = f.IterationCompleted("x", 1, Decision.CONTINUE, "", result, Result(), 1, output)
        history.apply(event(seq, fact, Cursor(path, 1, number, provider)))
    for path, reason in (reasons or {}).items():
        history.apply(event(99, f.StageCompleted("x", reason, 1), Cursor(path, 1, 1, "claude")))
    return history


BOTH = history_of(
    ("0", None, 1, "p1.md"),
    ("0", None, 2, "p2.md"),
    ("1.0", "claude", 1, "c1.md"),
    ("1.0", "claude", 2, "c2.md"),
    ("1.0", "codex", 1, None),
    ("1.1", "claude", 1, "cc.md"),
    ("1.1", "codex", 1, "xc.md"),
    reasons={"1.1": "max_iterations"},
)


def parallel(source: FromParallel, plan: Plan = PLAN, history: History = BOTH) -> dict[str, Any]:
    found = from_parallel(InputSources(from_parallel=(source,)), history, plan, LAYOUT)
    assert isinstance(found, dict)
    return found


def test_stage_without_sources_has_no_inputs() -> None:
    assert from_stage(None, BOTH, LAYOUT) == {}
    assert from_parallel(None, BOTH, PLAN, LAYOUT) == {}
    assert from_parallel(InputSources(), BOTH, PLAN, LAYOUT) == {}


def test_outputs_of_stages_by_id_sorted_latest_or_all() -> None:
    sources = (FromStage("z", "0"), FromStage("a", "0", "all"), FromStage("m", "1.0", "latest", "codex"))
    found = from_stage(InputSources(sources), BOTH, LAYOUT)
    assert found == {"a": [in_run("p1.md"), in_run("p2.md")], "m": [], "z": [in_run("p2.md")]}
    assert list(found) == ["a", "m", "z"]


def test_latest_outputs_of_all_providers_sorted_by_name() -> None:
    found = parallel(SOURCE)
    assert list(found["providers"]) == ["claude", "codex"]
    assert found["providers"]["claude"] == {
        "output": in_run("c2.md"),
        "status": "/r/1.0/2/status.json",
        "iterations": 2,
        "termination_reason": "fixed",
        "history": [],
    }
    assert found["providers"]["codex"]["output"] is None
    assert found["manifest"] == f"{LAYOUT.root}/parallel-01-duel/manifest.json"


def test_select_all_and_provider_filter() -> None:
    found = parallel(replace(SOURCE, providers=("claude",), select="all"))
    assert {name: one["history"] for name, one in found["providers"].items()} == {
        "claude": [in_run("c1.md"), in_run("c2.md")]
    }
    assert found["select"] == "history"


def test_termination_reason_of_a_judged_stage() -> None:
    found = parallel(replace(SOURCE, stage="check"))
    assert {name: one["termination_reason"] for name, one in found["providers"].items()} == {
        "claude": "max_iterations",
        "codex": "plateau",
    }


def test_list_of_sources_stays_a_list() -> None:
    sources = InputSources(from_parallel=(SOURCE, replace(SOURCE, stage="check")), parallel_list=True)
    found = from_parallel(sources, BOTH, PLAN, LAYOUT)
    assert isinstance(found, list)
    assert [one["stage"] for one in found] == ["draft", "check"]


def test_block_of_a_nested_pipeline_is_that_of_the_latest_run_there_was() -> None:
    plan = plan_of(nested("polish", DUEL, runs=2))
    history = history_of(("0.0.0", "claude", 1, "deep.md"))
    found = parallel(replace(SOURCE, path="0.0"), plan, history)
    assert found["providers"]["claude"]["output"] == in_run("deep.md")
    assert found["manifest"].endswith("/pipeline-00-polish/parallel-00-duel/manifest.json")
    again = f.IterationCompleted("x", 1, Decision.CONTINUE, "", "/r.json", Result(), 1, "again.md")
    history.apply(event(9, again, Cursor("0.0.0", 2, 1, "claude")))
    second = "pipeline-00-polish/run-002/parallel-00-duel/manifest.json"
    history.apply(event(10, f.ManifestWritten(second), Cursor("0.0", 2, 0)))
    found = parallel(replace(SOURCE, path="0.0"), plan, history)
    assert found["providers"]["claude"]["output"] == in_run("again.md")
    assert found["manifest"] == in_run(second)


def test_status_file_is_beside_the_result() -> None:
    history = History()
    odd = f.IterationCompleted(
        "x", 1, Decision.CONTINUE, "", "/a result.json b/result.json", Result(), 1, None
    )
    assert history.stage("1.0", "claude").status_file == ""
    history.apply(event(1, odd, Cursor("1.0", 1, 1, "claude")))
    assert history.stage("1.0", "claude").status_file == "/a result.json b/status.json"


def test_manifest_lists_outputs_of_every_provider_and_stage() -> None:
    written = manifest(PLAN, "1", LAYOUT, BOTH, NOON)
    assert written["block"] == {"name": "duel", "index": 1, "stages": ["draft", "check"]}
    assert list(written["providers"]) == ["claude", "codex"]
    assert written["providers"]["claude"]["draft"] == {
        "latest_output": in_run("c2.md"),
        "status": "/r/1.0/2/status.json",
        "result": "/r/1.0/2/result.json",
        "iterations": 2,
        "termination_reason": "fixed",
        "history": [in_run("c1.md"), in_run("c2.md")],
    }
    assert written["completed_at"] == NOON


UNDER_WAY = """
    > start
    < node_start duel
    < codex: parallel_provider_start
    < claude: parallel_provider_start
    ? codex: prepare draft 1
    ? claude: prepare draft 1
    > claude: prepared
    < claude: attempt_start 1
    ? codex: prepare draft 1
    ? claude: execute draft 1 attempt 1
    > codex: unprepared
    < codex: parallel_provider_complete failed
    ? claude: execute draft 1 attempt 1
"""


def test_branches_have_lines_of_their_own_in_the_progress_of_a_block() -> None:
    plan = plan_of(DUEL)
    conversation = play(plan, UNDER_WAY)
    assert conversation.state is not None
    (row,) = stage_progress(plan, conversation.state)
    assert (row.id, row.mark, row.completed, row.total) == ("duel", "current", 0, 12)
    assert [(one.provider, one.mark, one.stage, one.total) for one in row.branches] == [
        ("codex", "failed", "draft", 6),
        ("claude", "current", "draft", 6),
    ]
    assert row.branches[0].error == "draft: no such prompt"


def test_state_of_a_branch_that_failed_names_its_error() -> None:
    plan = plan_of(DUEL)
    conversation = play(plan, UNDER_WAY)
    assert conversation.state is not None
    assert conversation.state.block is not None
    codex, claude = (branch_file(plan, conversation.state, b) for b in conversation.state.block.branches)
    assert (codex["status"], codex["error"]) == ("failed", "draft: no such prompt")
    assert (claude["status"], claude["iteration"], claude["iteration_completed"]) == ("running", 1, 0)
    assert "error" not in claude


def test_state_of_a_branch_follows_its_work() -> None:
    plan = plan_of(stage("plan"), block("codex claude", stage("draft", runs=2), stage("check")))
    conversation = Play(plan)
    conversation.happens("start")
    conversation.happens("prepared")
    conversation.now = begun = NOON + timedelta(seconds=60)
    conversation.happens("completed")

    def claude() -> tuple[object, ...]:
        assert conversation.state is not None
        assert conversation.state.block is not None
        shown = branch_file(plan, conversation.state, conversation.state.block.branches[1])
        assert (shown["provider"], shown["session"], shown["started_at"]) == ("claude", "auth", begun)
        place = shown["current_stage"], shown["current_stage_name"]
        done = [one["name"] for one in shown["stages"]]
        return shown["status"], *place, shown["iteration"], shown["iteration_completed"], done

    assert claude() == ("running", 0, "draft", 0, 0, [])
    conversation.happens("claude: prepared")
    assert claude() == ("running", 0, "draft", 1, 0, [])
    conversation.happens("claude: asks Which?=this")
    assert claude() == ("running", 0, "draft", 1, 1, [])
    for words in ("prepared", "completed", "prepared", "completed"):
        conversation.happens(f"claude: {words}")
    assert claude() == ("running", 1, "check", 0, 0, ["draft"])
    for words in ("prepared", "completed"):
        conversation.happens(f"claude: {words}")
    assert claude() == ("completed", 2, "check", 0, 0, ["draft", "check"])


def test_state_of_a_branch_has_the_stages_that_are_done_and_why_they_ended() -> None:
    plan = plan_of(DUEL)
    conversation = play(plan, UNDER_WAY)
    assert conversation.state is not None
    assert conversation.state.block is not None
    done = [
        StageRecord("draft", "0.0", 3, NOON, "max_iterations"),
        StageRecord("check", "0.1", 2, NOON, "said stop"),
        StageRecord("gone", "0.2", 1, NOON, "as it was"),
    ]
    branch = replace(conversation.state.block.branches[1], stages=tuple(done))
    shown = branch_file(plan, conversation.state, branch)["stages"]
    assert [(one["name"], one["iterations"], one["termination_reason"]) for one in shown] == [
        ("draft", 3, "max_iterations"),
        ("check", 2, ended_by(DUEL.branches[0].stages[1], "said stop")),
        ("gone", 1, "as it was"),
    ]


def test_state_of_a_branch_that_the_plan_does_not_have_is_shown_as_it_is() -> None:
    conversation = play(plan_of(DUEL), UNDER_WAY)
    assert conversation.state is not None
    assert conversation.state.block is not None
    elsewhere = replace(conversation.state, at=replace(conversation.state.block, path="7"))
    shown = branch_file(plan_of(DUEL), elsewhere, conversation.state.block.branches[0])
    assert (shown["provider"], shown["stages"]) == ("codex", [])
    assert "current_stage_name" not in shown


def test_outputs_move_with_their_stages_to_another_plan() -> None:
    history = history_of(("0", None, 1, "gone.md"), ("1", None, 1, "moved.md"), ("2", None, 1, "stays.md"))
    moved = f.PlanChanged(plan_of(DUEL), paths={"0": None, "1": "0"})
    history.apply(event(9, moved, None))
    assert history.stage("0").paths == ["moved.md"]
    assert history.stage("1").paths == []
    assert history.stage("2").paths == ["stays.md"]
