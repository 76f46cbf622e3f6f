"""--provider-config and its variable, through the real program."""

import json
import re

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
    assert "expected KEY=VALUE, got `nothing`" in done.err
    done = greeting.call("run", "-p", "p.yaml", "-s", "s", env={"AGENTFORGE_PROVIDER_CONFIG": "words"})
    assert done.code == 2
    assert "AGENTFORGE_PROVIDER_CONFIG must be a mapping, got the text `words`" in done.err
    assert not greeting.run_dir("s").exists()


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("{type: command, run: 'true', prompt: loud}", "`prompt` can't be 'loud'"),
        ("{type: command}", "provider command: set either `argv` or `run`"),
        ("{type: claude, timeout: soon}", "provider claude: `timeout` must be a number, not text"),
        ("{type: claude, timeout: -1}", "`timeout` must be a number of seconds, got -1"),
        ("{type: claude, effort: banana}", "`effort`: invalid reasoning effort 'banana'"),
        ("{type: claude, arguments: --quiet}", "provider claude: `arguments` must be a list, not text"),
        ("{type: cli}", "provider cli: `program` is missing"),
        ("{type: cli, program: mine, efforts: 3}", "provider cli: `efforts` must be a list, not a number"),
        ("{type: replay}", "provider replay: `cassette` is missing"),
        ("{type: api}", "provider api: `model` is missing"),
        ("{type: api, model: gpt-5.5}", "cannot infer which API serves model 'gpt-5.5'"),
        ("{type: api, model: 'ollama:m', max_steps: 0}", "`max_steps` must be a number >= 1"),
        ("{type: mock, delay: long}", "provider mock: `delay` must be a number, not text"),
    ],
)
def test_settings_that_a_provider_can_t_use_are_refused_before_any_stage_runs(
    project: Project, provider: str, expected: str
) -> None:
    """Not when it is the stage's turn, after others were paid for."""
    file = project.pipeline(f"first={WRITE_RESULT}")
    with (project.root / file).open("a") as pipeline:
        pipeline.write(f"  - {{id: last, prompt: do it, provider: [{provider}, mock]}}\n")
    claude = project.home / "claude"
    claude.write_text("#!/bin/sh\n")
    claude.chmod(0o700)
    path = f"{project.home}:{project.env['PATH']}"
    done = project.call("run", "-p", file, "-s", "s", env={"PATH": path, "OPENAI_API_KEY": "none-12345"})
    assert done.code == 2, done.err
    assert re.search(r"^p.yaml:\d+:\d+: provider-settings: ", done.err, re.MULTILINE)
    assert expected in done.err
    assert "hint: " in done.err
    assert not project.run_dir("s").exists()


def test_sources_that_the_run_may_create_are_not_checked_before(project: Project) -> None:
    made = "printf '#!/bin/sh\\n%s' '" + WRITE_RESULT.replace("'", "'\\''") + "' > made; chmod +x made; "
    file = project.pipeline(f"first={made}{WRITE_RESULT}")
    with (project.root / file).open("a") as pipeline:
        pipeline.write("  - {id: last, prompt: do it, provider: {type: command, argv: [./made]}}\n")
    assert project.call("run", "-p", file, "-s", "s").code == 0
