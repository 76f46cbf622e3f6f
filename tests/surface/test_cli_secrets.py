"""A secret of the environment reaches the agent, and from there no file of the run and no line of a log."""

import json
from pathlib import Path

import pytest
from tests.surface.terminal import Done, Project

KEY = "sk-live-0123456789-abcdef"
SECRETS = {"MY_API_KEY": KEY}
TELLS_RESULT = """printf '{"summary": "used %s"}' "$MY_API_KEY" > "$AGENTFORGE_RESULT"; """
FAILS = 'echo "first $MY_API_KEY"; echo "refused key $MY_API_KEY" >&2; exit 3'


def leaks(project: Project, *said: Done) -> list[str]:
    """Where the key can be found."""
    files = [path for path in project.root.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    homes = [path for path in project.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    lines = [line for done in said for line in (done.out + done.err).splitlines() if KEY in line]
    return [*map(str, files), *map(str, homes), *lines]


def run_dir(project: Project) -> Path:
    return project.root / ".claude/pipeline-runs/auth"


@pytest.mark.parametrize("form", ["json", "pretty"])
def test_an_agent_that_fails_with_its_key_in_the_last_line(project: Project, form: str) -> None:
    file = project.pipeline(f"plan={TELLS_RESULT}{FAILS}", extra="    retry: {max_attempts: 1}\n")
    done = project.call(
        "run", "-p", file, "-s", "auth", f"--log-format={form}", "--log-level=debug", env=SECRETS
    )
    assert done.code == 1
    assert "refused key [secret]" in done.err + done.out
    looked = project.call("status", "auth", "--json")
    assert leaks(project, done, looked) == []
    (error,) = run_dir(project).rglob("error.json")
    assert "refused key [secret]" in json.loads(error.read_text())["message"]


def test_an_agent_that_puts_its_key_into_its_result(project: Project) -> None:
    file = project.pipeline(f"plan={TELLS_RESULT}echo the key is $MY_API_KEY")
    done = project.call("run", "-p", file, "-s", "auth", "--log-level=debug", env=SECRETS)
    assert done.code == 0
    assert leaks(project, done, project.call("tail", "auth")) == []
    (result,) = run_dir(project).rglob("result.json")
    assert json.loads(result.read_text())["summary"] == "used [secret]"
    (output,) = run_dir(project).rglob("output.md")
    assert "the key is [secret]" in output.read_text()


def test_an_agent_without_the_key_cannot_leak_it(project: Project) -> None:
    file = project.pipeline(f'plan={TELLS_RESULT}echo "<$MY_API_KEY>"')
    text = (project.root / file).read_text().replace("type: command,", "type: command, env: declared,")
    (project.root / file).write_text(text)
    assert project.call("run", "-p", file, "-s", "auth", env=SECRETS).code == 0
    (output,) = run_dir(project).rglob("output.md")
    assert output.read_text().strip() == "<>"


def test_an_agent_that_finds_the_key_elsewhere_than_in_its_environment(project: Project) -> None:
    """In a file of the home, say: the supervisor hides it though the agent was never given it."""
    found = project.root.parent / "dotenv"
    found.write_text(f"KEY={KEY}\n")
    file = project.pipeline(f'plan={TELLS_RESULT}cat "{found}"')
    text = (project.root / file).read_text().replace("type: command,", "type: command, env: declared,")
    (project.root / file).write_text(text)
    assert project.call("run", "-p", file, "-s", "auth", env=SECRETS).code == 0
    assert leaks(project) == []
    (output,) = run_dir(project).rglob("output.log")
    assert output.read_text() == "KEY=[secret]\n"


def test_a_key_in_the_definition_is_refused_before_anything_is_kept(project: Project) -> None:
    file = project.pipeline("plan=true")
    text = (
        (project.root / file)
        .read_text()
        .replace("type: command,", f"type: command, env: {{MY_API_KEY: {KEY}}},")
    )
    (project.root / file).write_text(text)
    done = project.call("run", "-p", file, "-s", "auth")
    assert done.code == 2
    assert "secret-in-file" in done.err
    assert KEY not in done.out + done.err
    assert not run_dir(project).exists()
