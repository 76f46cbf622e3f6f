"""`--record` and `agentforge replay`: a run is kept, and run again without its agents."""

import json
import shutil
from pathlib import Path

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

WRITES = f'echo "$MOCK_ITERATION" >> made.txt; echo working; {WRITE_RESULT}'


def recorded(project: Project, *stages: str) -> Path:
    """A recorded run `auth`; its cassette, away from the project, which is as before."""
    file = project.pipeline(*(stages or (f"plan*2={WRITES}",)))
    done = project.call("run", "-p", file, "-s", "auth", "--record")
    assert done.code == 0, done.err
    assert "  Recorded: .claude/pipeline-runs/auth/cassette.jsonl" in done.lines
    return project.run_dir("auth") / "cassette.jsonl"


def test_a_recorded_session_is_replayed_without_its_agent(project: Project) -> None:
    recorded(project)
    (project.root / "made.txt").unlink()
    broken = project.root / "p.yaml"
    broken.write_text(broken.read_text().replace("echo working", "exit 9"))
    done = project.call("replay", "auth")
    assert done.code == 0, done.err
    assert done.err.splitlines()[0] == (
        f"Replaying auth as session 'auth-replay': files are written to {project.root}. "
        "Use a clean checkout (`git worktree add`) to keep your own files untouched."
    )
    assert done.lines[-2:] == ["✓ Completed: 2 iterations in Ns", "  .claude/pipeline-runs/auth-replay"]
    assert (project.root / "made.txt").read_text() == "1\n2\n"
    output = project.run_dir("auth-replay") / "stage-00-plan" / "iterations" / "001" / "output.md"
    assert output.read_text() == "working\n"
    assert project.call("replay", "auth-replay", "-p", "p.yaml", "--check").code == 0


def test_replay_spends_nothing_of_a_cap(project: Project) -> None:
    recorded(project)
    capped = project.root / "p.yaml"
    capped.write_text(capped.read_text() + "\nlimits: {cost_usd: 0.01, tokens: 1}\n")
    done = project.call("replay", "auth", "-p", "p.yaml")
    assert done.code == 0, done.err
    assert done.lines[-2] == "✓ Completed: 2 iterations in Ns, cost $0.00 of $0.01"


def test_a_second_replay_needs_another_name(project: Project) -> None:
    recorded(project)
    assert project.call("replay", "auth").code == 0
    done = project.call("replay", "auth")
    assert done.code == 1
    assert "Session 'auth-replay' already completed." in done.err
    assert "hint: choose another name with `-s NEW`" in done.err
    assert project.call("replay", "auth", "-s", "auth-replay-2").code == 0


def test_a_cassette_is_replayed_by_itself_and_under_a_name(project: Project, tmp_path: Path) -> None:
    kept = shutil.copy(recorded(project), tmp_path / "kept.jsonl")
    shutil.rmtree(project.root / ".claude")
    (project.root / "p.yaml").unlink()
    (project.root / "made.txt").unlink()
    done = project.call("replay", str(kept), "-s", "again", "--json")
    assert done.code == 0, done.err
    assert (done.json["session"], done.json["iterations"]) == ("again", 2)
    assert (project.root / "made.txt").read_text() == "1\n2\n"


def test_a_replay_with_another_pipeline_fails_clearly_where_nothing_was_recorded(
    project: Project,
) -> None:
    recorded(project)
    longer = project.pipeline(f"plan*3={WRITES}", name="longer.yaml")
    done = project.call("replay", "auth", "-p", longer)
    assert done.code == 1
    assert "not_recorded: replay: no exchange for stage 'plan', iteration 3" in done.out
    assert project.types("auth-replay").count("attempt_start") == 3, "it isn't tried again"


def test_a_replay_refuses_a_session_name_in_use(project: Project) -> None:
    recorded(project)
    done = project.call("replay", "auth", "-s", "auth")
    assert done.code == 1
    assert "Session 'auth' already completed." in done.err
    assert "Replaying" not in done.err


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nobody", "no session 'nobody'"),
        ("plain", "session 'plain' was not recorded"),
        ("nowhere.jsonl", "cassette not found"),
        ("hand.jsonl", "has no plan: the pipeline that it was recorded with is unknown"),
        ("torn.jsonl", "torn.jsonl:2:"),
    ],
)
def test_a_replay_reports_what_is_missing(project: Project, source: str, words: str) -> None:
    project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("run", "-p", "p.yaml", "-s", "plain").code == 0
    header = json.dumps({"format": "agentforge-cassette", "version": 1})
    (project.root / "hand.jsonl").write_text(f"{header}\n")
    (project.root / "torn.jsonl").write_text(f'{header}\n{{"stage"')
    done = project.call("replay", source)
    assert done.code == 2
    assert words in done.err


def test_a_cassette_can_be_checked_instead_of_its_session(project: Project, tmp_path: Path) -> None:
    kept = shutil.copy(recorded(project), tmp_path / "kept.jsonl")
    shutil.rmtree(project.root / ".claude")
    same = project.call("replay", str(kept), "--check")
    assert (same.code, same.out) == (0, "✓ same course: session 'auth' with p.yaml (2 iterations)\n"), (
        same.err
    )
    other = project.pipeline(f"plan*5={WRITES}", name="other.yaml")
    done = project.call("replay", str(kept), "-p", other, "--check")
    assert done.code == 1
    assert done.out.splitlines()[1] == (
        "  stage 'plan': the past run ended after iteration 2 (Completed 2 iterations (max: 2)); "
        "this pipeline would continue with iteration 3, which has no recorded outcome"
    )


def test_a_run_resumed_with_record_stays_recorded(project: Project) -> None:
    fails = f'[ "$MOCK_ITERATION" = 1 ] || [ -e fine ] || exit 3; {WRITES}'
    project.pipeline(f"plan*3={fails}", extra="    retry: {max_attempts: 1}\n")
    assert project.call("run", "-p", "p.yaml", "-s", "auth").code == 1
    assert not (project.run_dir("auth") / "cassette.jsonl").exists()
    failed = project.call("resume", "auth", "--record")
    assert failed.code == 1
    (project.root / "fine").touch()
    assert project.call("resume", "auth").code == 0
    lines = (project.run_dir("auth") / "cassette.jsonl").read_text().splitlines()[1:]
    found = [(line["iteration"], line["attempt"], line.get("made")) for line in map(json.loads, lines)]
    assert found == [(2, 1, 2), (2, 2, 3), (3, 1, None)]


@pytest.mark.parametrize("form", [("pipeline", "p.yaml", "auth"), ("loop", "improve", "auth", "1")])
def test_pipelines_and_loops_are_recorded_in_the_foreground_too(
    project: Project, form: tuple[str, ...]
) -> None:
    project.stage("improve")
    project.pipeline(f"plan={WRITES}")
    env = {"MOCK_MODE": "true"} if form[0] == "loop" else {}
    assert project.call(*form, "--foreground", "--record", env=env).code == 0
    assert len((project.run_dir("auth") / "cassette.jsonl").read_text().splitlines()) == 2
    assert project.call("replay", "auth").code == 0
