"""Where the files of a run lie: the names that users of agent-pipelines know."""

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, nested, plan_of, stage

from agentforge.model.failure import short_message
from agentforge.model.layout import (
    RunLayout,
    config_folder,
    is_inside,
    lock_file,
    loop_completions,
    runs_dir,
    stop_reason_file,
)
from agentforge.model.place import branch_place, folder_of, inner_place
from agentforge.model.plan import Overrides, PipelineInfo, Plan, visit_dir
from agentforge.model.state import BlockState, StageState

LAYOUT = RunLayout.of("/project", "auth")
RUN = "/project/.claude/pipeline-runs/auth"


def test_files_of_a_run() -> None:
    assert runs_dir("/project") == "/project/.claude/pipeline-runs"
    assert lock_file("/project", "auth") == "/project/.claude/locks/auth.lock"
    assert LAYOUT.root == RUN
    assert LAYOUT.log == f"{RUN}/events.jsonl"
    assert LAYOUT.plan == f"{RUN}/plan.json"
    assert LAYOUT.state == f"{RUN}/state.json"
    assert LAYOUT.control == f"{RUN}/control"
    assert LAYOUT.answers == f"{RUN}/answers"
    assert LAYOUT.cassette == f"{RUN}/cassette.jsonl"
    assert LAYOUT.recording == f"{RUN}/recording.json"
    assert LAYOUT.replayed == f"{RUN}/replayed.jsonl"
    assert loop_completions("/project") == "/project/.claude/loop-completions.json"


def test_trees_and_reasons_have_their_place() -> None:
    assert RunLayout.of("/project", "auth").trees == "/project/.claude/pipeline-runs/auth/trees"
    assert stop_reason_file("/project", "auth") == "/project/.claude/locks/auth.stopped"


def test_a_message_is_cut_to_what_the_log_can_hold() -> None:
    assert short_message("abc", 3) == "abc"
    assert short_message("abcd\ud800", 3) == "ab…"
    assert short_message("a\ud800") == "a?"


def test_files_of_an_attempt() -> None:
    attempt = LAYOUT.iteration("stage-00-plan", 1).attempt(2)
    assert attempt.root == f"{RUN}/stage-00-plan/iterations/001/attempt-2"
    assert attempt.errors == f"{attempt.root}/errors.log"
    assert LAYOUT.hook_attempt("9e5c", 2).root == f"{RUN}/hooks/9e5c/attempt-2"
    assert (
        LAYOUT.task_attempt("stage-00-plan", "check", "test-3", 2).root
        == f"{RUN}/stage-00-plan/checks/test-3-2"
    )


def folders(plan: Plan) -> list[str]:
    return [step.dir for step in plan.steps]


def test_directory_naming_convention() -> None:
    assert folders(plan_of(stage("plan"), block("claude", stage("draft")))) == [
        "stage-00-plan",
        "parallel-01-duel",
    ]
    assert folders(plan_of(*(stage(f"s{n}") for n in range(13))))[12] == "stage-12-s12"
    assert LAYOUT.stage_dir("stage-12-plan") == f"{RUN}/stage-12-plan"
    assert LAYOUT.iteration("stage-00-plan", 15).root == f"{RUN}/stage-00-plan/iterations/015"
    assert LAYOUT.iteration("stage-00-plan", 1000).root.endswith("/iterations/1000")


def test_provider_of_a_parallel_block_has_its_own_directory() -> None:
    plan = plan_of(stage("plan"), block("claude codex", stage("draft"), stage("check")))
    place = inner_place(plan.places["1"], 1, "codex", 1)
    assert place == branch_place(plan, BlockState("1", 1), "codex", StageState("1.1", 1))
    assert place.scope == "parallel-01-duel/providers/codex"
    assert place.folder == "parallel-01-duel/providers/codex/stage-01-check"
    assert LAYOUT.branch_state(place.scope) == f"{RUN}/parallel-01-duel/providers/codex/state.json"
    assert LAYOUT.manifest(plan.steps[1].dir) == f"{RUN}/parallel-01-duel/manifest.json"


def test_later_visits_of_a_node_lie_beside_its_first() -> None:
    plan = plan_of(stage("plan"), block("claude", stage("draft")))
    second = [visit_dir(folder, 2) for folder in folders(plan)]
    assert second == ["stage-00-plan/run-002", "parallel-01-duel/run-002"]
    assert LAYOUT.progress("pipeline", second[0]) == f"{RUN}/stage-00-plan/run-002/progress.md"
    drafted = branch_place(plan, BlockState("1", 2), "claude", StageState("1.0", 2))
    assert drafted.folder == "parallel-01-duel/run-002/providers/claude/stage-00-draft"


def test_visit_keeps_the_folder_that_was_recorded_for_it() -> None:
    plan = plan_of(stage("plan"), block("claude", stage("draft")))
    assert folder_of(plan, StageState("0", 3, "stage-07-plan/run-003")) == "stage-07-plan/run-003"
    assert folder_of(plan, StageState("0", 3)) == "stage-00-plan/run-003"


def test_nested_pipelines_lie_in_directories_of_their_own() -> None:
    inner = nested("polish", stage("refine"), block("claude", stage("vote")), runs=2)
    plan = plan_of(stage("plan"), inner)
    assert [(step.path, step.dir) for step in plan.steps] == [
        ("0", "stage-00-plan"),
        ("1.0", "pipeline-01-polish/stage-00-refine"),
        ("1.1", "pipeline-01-polish/parallel-01-duel"),
    ]
    assert visit_dir(plan.steps[1].dir, 2) == "pipeline-01-polish/run-002/stage-00-refine"


def test_each_place_and_visit_has_its_own_directory() -> None:
    deep = nested("outer", stage("a"), nested("inner", stage("b"), stage("c"), runs=2), runs=2)
    plan = plan_of(deep, nested("again", stage("b")), stage("z"), passes=2)
    assert [step.path for step in plan.steps] == ["0.0", "0.1.0", "0.1.1", "1.0", "2"]
    visits = {visit_dir(step.dir, run) for step in plan.steps for run in range(1, 9)}
    assert len(visits) == 8 * len(plan.steps)


def test_progress_file_hierarchy() -> None:
    assert LAYOUT.progress("loop", "stage-00-plan") == f"{RUN}/progress-auth.md"
    assert LAYOUT.progress("pipeline", "stage-00-plan") == f"{RUN}/stage-00-plan/progress.md"
    branch = "parallel-01-duel/providers/codex"
    assert LAYOUT.progress("pipeline", f"{branch}/stage-00-draft", branch) == f"{RUN}/{branch}/progress.md"


def test_files_of_an_iteration_and_its_attempts() -> None:
    here = LAYOUT.iteration("stage-00-plan", 1)
    names = (here.context, here.prompt, here.output, here.result, here.status, here.attempts)
    names += (here.error, here.judge)
    assert [name.removeprefix(f"{here.root}/") for name in names] == [
        "context.json",
        "prompt.md",
        "output.md",
        "result.json",
        "status.json",
        "attempts.jsonl",
        "error.json",
        "judge.json",
    ]
    place = here.attempt(2)
    assert [name.removeprefix(f"{here.root}/") for name in (place.claim, place.agent)] == [
        "attempt-2/claim",
        "attempt-2/agent.json",
    ]
    assert here.judge_attempt(1).exit == f"{here.root}/judge-1/exit.json"
    assert place.output.endswith("attempt-2/output.log")
    assert place.exit.endswith("attempt-2/exit.json")
    assert place.git.endswith("attempt-2/git.json")


@pytest.mark.parametrize(
    ("path", "inside"), [("a/b", True), ("a..b", True), ("/a", False), ("..", False), ("a/../../b", False)]
)
def test_a_path_of_a_log_stays_inside_the_run(path: str, inside: bool) -> None:
    assert is_inside(path) is inside


def test_the_log_refers_to_files_of_the_run_by_relative_paths() -> None:
    assert LAYOUT.relative(f"{RUN}/stage-00-plan/state.json") == "stage-00-plan/state.json"
    assert LAYOUT.relative("/elsewhere/file") == "/elsewhere/file"


def test_escalations_are_in_the_project_of_the_run() -> None:
    assert RunLayout.of("/repo", "auth").escalations == "/repo/.agentforge/escalations"


def test_only_a_pipeline_with_the_view_has_escalations() -> None:
    info = PipelineInfo("p", Overrides(), {})
    assert (info.has_escalations, replace(info, views=("escalations",)).has_escalations) == (False, True)


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/h"}, "/h/.config"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}, "/c"),
        ({"XDG_CONFIG_HOME": "c"}, None),
        ({}, None),
    ],
)
def test_the_folder_of_settings(environment: dict[str, str], folder: str | None) -> None:
    assert config_folder(environment) == folder
