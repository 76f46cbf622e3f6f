"""Where the files of a run lie: the names that users of agent-pipelines know."""

from tests.engine.plans import stage

from agentforge.model.layout import RunLayout, lock_file, node_dir_name, runs_dir

LAYOUT = RunLayout.of("/project", "auth")
RUN = "/project/.claude/pipeline-runs/auth"
NODE = stage("plan")


def test_files_of_a_run() -> None:
    assert runs_dir("/project") == "/project/.claude/pipeline-runs"
    assert lock_file("/project", "auth") == "/project/.claude/locks/auth.lock"
    assert LAYOUT.root == RUN
    assert LAYOUT.log == f"{RUN}/events.jsonl"
    assert LAYOUT.plan == f"{RUN}/plan.json"
    assert LAYOUT.state == f"{RUN}/state.json"
    assert LAYOUT.control == f"{RUN}/control"
    assert LAYOUT.answers == f"{RUN}/answers"


def test_directory_naming_convention() -> None:
    assert node_dir_name(0, NODE) == "stage-00-plan"
    assert LAYOUT.stage_dir(12, NODE) == f"{RUN}/stage-12-plan"
    assert LAYOUT.iteration(0, NODE, 1, 15).root == f"{RUN}/stage-00-plan/iterations/015"
    assert LAYOUT.iteration(0, NODE, 1, 1000).root.endswith("/iterations/1000")


def test_later_runs_of_a_node_lie_beside_its_first() -> None:
    assert LAYOUT.stage_dir(0, NODE, 2) == f"{RUN}/stage-00-plan/run-002"
    assert LAYOUT.progress("pipeline", 0, NODE, 2) == f"{RUN}/stage-00-plan/run-002/progress.md"


def test_progress_file_hierarchy() -> None:
    assert LAYOUT.progress("loop", 0, NODE) == f"{RUN}/progress-auth.md"
    assert LAYOUT.progress("pipeline", 0, NODE) == f"{RUN}/stage-00-plan/progress.md"


def test_files_of_an_iteration_and_its_attempts() -> None:
    here = LAYOUT.iteration(0, NODE, 1, 1)
    names = (here.context, here.prompt, here.output, here.result, here.status, here.attempts, here.error)
    assert [name.removeprefix(f"{here.root}/") for name in names] == [
        "context.json",
        "prompt.md",
        "output.md",
        "result.json",
        "status.json",
        "attempts.jsonl",
        "error.json",
    ]
    place = here.attempt(2)
    assert [name.removeprefix(f"{here.root}/") for name in (place.spec, place.claim, place.agent)] == [
        "attempt-2/spec.json",
        "attempt-2/claim",
        "attempt-2/agent.json",
    ]
    assert place.output.endswith("attempt-2/output.log")
    assert place.exit.endswith("attempt-2/exit.json")
