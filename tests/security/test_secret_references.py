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
    """The files of the run and of the user's state that contain the secret."""
    folders = (project.root / ".claude", project.root / ".agentforge-outbox", project.home)
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
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
    assert "DEPLOY_TOKEN, which is not set" in missing.err + missing.out
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


def test_secret_in_a_command_is_stored_as_a_reference_and_the_agent_gets_the_variable(
    project: Project,
) -> None:
    pipeline(project, f"cat >> ../prompt; echo $DEPLOY_TOKEN >> ../given; [ -e go ] || exit 1; {RESULT}")
    done = run(project, "--command", f"test=curl -H {SECRET}", "--record")
    assert done.code != 0
    assert "contains the value of DEPLOY_TOKEN" in done.err
    (project.root / "go").touch()
    missing = project.call("resume", "s")
    assert missing.code != 0
    assert "DEPLOY_TOKEN, which is not set" in missing.err + missing.out
    assert project.call("resume", "s", env=KEY).code == 0
    assert set((project.root.parent / "given").read_text().split()) == {SECRET}
    assert holding(project) == []
    (context, *_) = (project.root / ".claude").rglob("context.json")
    assert json.loads(context.read_text())["commands"]["test"] == "curl -H ${secret:DEPLOY_TOKEN}"


DEFINITION = f"""\
name: demo
description: about {SECRET}
commands: {{test: "check {SECRET}"}}
nodes:
  - id: a
    prompt: "in the prompt {SECRET}; ${{CONTEXT}}"
    context: in the context {SECRET}
    commands: {{lint: "lint {SECRET}"}}
    runs: 1
    delay: 0
    retry: {{max_attempts: 1}}
    provider:
      type: command
      env: {{PLAIN: "{SECRET}"}}
      run: |
        cat >> ../prompt; echo "$PLAIN" >> ../given; : {SECRET}
        [ -e go ] || exit 1
        {RESULT}
  - id: b
    stage: own
    runs: 1
"""


def test_secrets_in_every_place_of_a_definition_are_stored_as_references(project: Project) -> None:
    stage = project.root / ".claude/stages/own"
    stage.mkdir(parents=True)
    (stage / "stage.yaml").write_text(
        f"description: of {SECRET}\ncontext: stage {SECRET}\nprovider: {{type: command, run: "
        f"{json.dumps(f'cat >> ../prompt; : {SECRET}; {RESULT}')}}}\n"
    )
    (stage / "prompt.md").write_text(f"stage prompt {SECRET} ${{CONTEXT}}\n")
    (project.root / "p.yaml").write_text(DEFINITION)
    done = run(project, "--record")
    assert done.code != 0
    assert "contains the value of DEPLOY_TOKEN" in done.err
    (project.root / "go").touch()
    resumed = project.call("resume", "s", "--context", f"note {SECRET}", env=KEY)
    assert resumed.code == 0, resumed
    told = (project.root.parent / "prompt").read_text()
    for text in ("in the prompt", "in the context", "note", "stage prompt", "stage"):
        assert f"{text} {SECRET}" in told
    assert set((project.root.parent / "given").read_text().split()) == {SECRET}
    assert SECRET not in done.err + done.out + resumed.err + resumed.out
    looked = [project.call(*words, env=KEY) for words in (("status", "s"), ("tail", "s"), ("list",))]
    assert not [line for line in looked if SECRET in line.out + line.err]
    assert [path for path in holding(project) if path.parent != stage] == []
