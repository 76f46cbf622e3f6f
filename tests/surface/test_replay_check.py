"""`agentforge replay --check`: whether a past run would go the same way by the pipeline as it is now."""

import json

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

STOPS = """printf '%s' '{"summary":"x","decision":"stop","reason":"enough"}' > "$MOCK_RESULT_FILE" """


def ran(project: Project, *stages: str) -> str:
    file = project.pipeline(*stages)
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    return file


def files(project: Project) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in project.root.rglob("*") if path.is_file()}


def test_replay_check_of_an_unchanged_pipeline_finds_the_same_course(project: Project) -> None:
    ran(project, f"plan*2={WRITE_RESULT}", f"build={WRITE_RESULT}")
    before = files(project)
    done = project.call("replay", "auth", "--check")
    assert (done.code, done.out) == (0, "✓ same course: session 'auth' with p.yaml (3 iterations)\n")
    assert files(project) == before


def test_replay_check_shows_where_an_edited_pipeline_differs_from_the_recorded_run(project: Project) -> None:
    ran(project, f"plan={WRITE_RESULT}", f"review*5={STOPS}")
    file = project.root / "p.yaml"
    judged = "    termination: {type: judgment, max: 5, min_iterations: 3}\n"
    file.write_text(
        file.read_text().replace(
            "  - id: review\n    prompt: do it\n    runs: 5\n", f"  - id: review\n    prompt: do it\n{judged}"
        )
    )
    done = project.call("replay", "auth", "--check")
    assert done.code == 1
    assert done.out.splitlines() == [
        "✗ different course: session 'auth' with p.yaml",
        "  stage 'review': the past run ended after iteration 1 (Agent requested stop at iteration 1); "
        "this pipeline would continue with iteration 2, which has no recorded outcome",
        "Recorded run:",
        "  plan: 1 iteration, Completed 1 iteration (max: 1)",
        "  review: 1 iteration, Agent requested stop at iteration 1",
        "  the run completed (reached the end of the pipeline)",
        "This pipeline:",
        "  plan: 1 iteration, Completed 1 iteration (max: 1)",
        "  review: 2 iterations, not ended",
        "  the run has not ended",
    ]


def test_replay_check_with_another_pipeline_in_json(project: Project) -> None:
    ran(project, f"plan={WRITE_RESULT}")
    other = project.pipeline(f"plan={WRITE_RESULT}", f"ship={WRITE_RESULT}", name="other.yaml")
    done = project.call("replay", "auth", "-p", other, "--check", "--json")
    assert done.code == 1
    assert done.json["same"] is False
    assert done.json["pipeline"] == "other.yaml"
    assert done.json["difference"]["now"] == {"what": "node_entered", "stage": "ship"}
    assert done.json["unrecorded"] == [{"what": "attempt", "stage": "ship", "iteration": 1, "attempt": 1}]
    assert done.json["past"][-1]["what"] == "run_completed"


def test_replay_check_of_a_single_stage(project: Project) -> None:
    project.stage("improve", "description: a stage\ntermination: {type: fixed, iterations: 2}\n")
    env = {"MOCK_MODE": "true"}
    assert project.call("loop", "improve", "auth", "2", "--foreground", env=env).code == 0
    done = project.call("replay", "auth", "--check", env=env)
    assert (done.code, done.out.count("same course")) == (0, 1), done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("replay", "nobody", "--check"), "no session 'nobody'"),
        (("replay", "auth", "-p", "nowhere.yaml", "--check"), "nowhere.yaml"),
        (("replay", "auth", "-p", "broken.yaml", "--check"), "broken.yaml:"),
    ],
)
def test_replay_check_refuses_what_it_cannot_compare(
    project: Project, arguments: tuple[str, ...], words: str
) -> None:
    ran(project, f"plan={WRITE_RESULT}")
    (project.root / "broken.yaml").write_text("name: x\nnodes: 7\n")
    done = project.call(*arguments)
    assert done.code == 2
    assert words in done.err
    as_json = project.call(*arguments, "--json")
    assert as_json.code == 2
    assert json.loads(as_json.out)["error"]["message"]
