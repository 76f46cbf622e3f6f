"""A secret's value in an option or a note is stored as a reference, and reaches the agent all the same."""

import json
from pathlib import Path

from tests.surface.terminal import Done, Project

SECRET = "sk-in-the-context-0123456789"
RESULT = """printf '{"summary": "done"}' > "$AGENTFORGE_RESULT" """
KEY = {"DEPLOY_TOKEN": SECRET}


def pipeline(project: Project, run: str) -> None:
    provider = f"{{type: command, env: declared, run: {json.dumps(run)}}}"
    (project.root / "p.yaml").write_text(
        "name: demo\nnodes:\n  - id: a\n    prompt: 'use ${CONTEXT}'\n    runs: 2\n    delay: 0\n"
        f"    retry: {{max_attempts: 1}}\n    provider: {provider}\n"
    )


def holding(project: Project) -> list[Path]:
    files = (path for path in (project.root / ".claude").rglob("*") if path.is_file())
    return [path for path in files if SECRET.encode() in path.read_bytes()]


def run(project: Project, *options: str, env: dict[str, str] | None = None) -> Done:
    return project.call("run", "-p", "p.yaml", "-s", "s", *options, env=KEY if env is None else env)


def test_the_agent_gets_the_value_and_no_file_has_it(project: Project) -> None:
    pipeline(project, f"cat >> ../prompt; {RESULT}")
    done = run(project, "--context", f"the token {SECRET}", "--record")
    assert done.code == 0, done
    assert f"the token {SECRET}" in (project.root.parent / "prompt").read_text()
    assert "contains the value of DEPLOY_TOKEN" in done.err + done.out
    assert holding(project) == []
    assert SECRET not in done.err + done.out


def test_a_resumed_run_needs_the_variable(project: Project) -> None:
    pipeline(project, f"cat >> ../prompt; [ -e go ] || exit 1; {RESULT}")
    assert run(project, "--context", f"the token {SECRET}").code != 0
    (project.root / "go").touch()
    (project.root.parent / "prompt").unlink()
    missing = project.call("resume", "s")
    assert missing.code != 0
    assert "DEPLOY_TOKEN is not set" in missing.err + missing.out
    assert not (project.root.parent / "prompt").exists()
    assert project.call("resume", "s", env=KEY).code == 0
    assert SECRET in (project.root.parent / "prompt").read_text()
    assert holding(project) == []


def test_a_note_of_a_resume_is_stored_as_a_reference(project: Project) -> None:
    pipeline(project, f"cat >> ../prompt; [ -e go ] || exit 1; {RESULT}")
    assert run(project).code != 0
    (project.root / "go").touch()
    assert project.call("resume", "s", "--context", f"now with {SECRET}", env=KEY).code == 0
    assert f"now with {SECRET}" in (project.root.parent / "prompt").read_text()
    assert holding(project) == []


def test_a_file_whose_name_contains_a_secret_is_not_recorded(project: Project) -> None:
    pipeline(
        project, f"echo x > {SECRET}.txt; echo y > other.txt; {RESULT}".replace(SECRET, "$(cat ../name)")
    )
    (project.root.parent / "name").write_text(SECRET)
    assert run(project, "--record").code == 0
    recording = project.root / ".claude/pipeline-runs/s"
    assert "other.txt" in (recording / "cassette.jsonl").read_text()
    assert holding(project) == []
