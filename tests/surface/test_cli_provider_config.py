"""--provider-config and its variable, through the real program."""

import json

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

SHELL = f"cat >/dev/null; echo $GREETING $NAME; {WRITE_RESULT}"
NODE = f"""
name: demo
nodes:
  - id: a
    prompt: do it
    delay: 0
    provider: {{type: command, run: {json.dumps(SHELL)}, env: {{GREETING: hello, NAME: world}}}}
"""


@pytest.fixture
def greeting(project: Project) -> Project:
    (project.root / "p.yaml").write_text(NODE)
    return project


def said(project: Project, session: str) -> str:
    return (project.run_dir(session) / "stage-00-a/iterations/001/output.md").read_text().strip()


def test_command_line_over_environment_over_file(greeting: Project) -> None:
    variable = {"AGENTFORGE_PROVIDER_CONFIG": "{env: {NAME: moon, GREETING: hi}}"}
    assert greeting.call("run", "-p", "p.yaml", "-s", "file").code == 0
    assert greeting.call("run", "-p", "p.yaml", "-s", "env", env=variable).code == 0
    line = ("run", "-p", "p.yaml", "-s", "line", "--provider-config", "env.NAME=sun")
    assert greeting.call(*line, env=variable).code == 0
    assert [said(greeting, session) for session in ("file", "env", "line")] == [
        "hello world",
        "hi moon",
        "hi sun",
    ]


def test_settings_before_the_command_as_agent_pipelines_takes_its_flags(greeting: Project) -> None:
    line = ("--provider-config", "env.NAME=sun", "pipeline", "p.yaml", "s", "--foreground")
    assert greeting.call(*line).code == 0
    assert said(greeting, "s") == "hello sun"


def test_bad_settings_are_refused_with_the_reason(greeting: Project) -> None:
    done = greeting.call("run", "-p", "p.yaml", "-s", "s", "--provider-config", "nothing")
    assert done.code == 2
    assert "`nothing` isn't KEY=VALUE" in done.err
    done = greeting.call("run", "-p", "p.yaml", "-s", "s", env={"AGENTFORGE_PROVIDER_CONFIG": "words"})
    assert done.code == 2
    assert "AGENTFORGE_PROVIDER_CONFIG must be a mapping, not the text `words`" in done.err
    assert not greeting.run_dir("s").exists()
