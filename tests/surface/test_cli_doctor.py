"""`agentforge doctor`: what is usable here, with the exact fix for what isn't; no secret is shown."""

import re
from pathlib import Path

import pytest
from tests.sdk.packages import install
from tests.surface.screen import on_a_terminal
from tests.surface.terminal import Project

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def programs(project: Project) -> Path:
    """The only folder of the path beside the system's, so that agents of this machine don't count."""
    folder = project.home / "bin"
    folder.mkdir()
    project.env["PATH"] = f"{folder}:/bin"
    return folder


def program(folder: Path, name: str, shell: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{shell}\n")
    (folder / name).chmod(0o755)


def checks(project: Project, **env: str) -> dict[str, dict[str, str]]:
    found = project.call("doctor", "--json", env=env).json["probes"]
    return {f"{check['group']}/{check['name']}": check for check in found}


def test_doctor_says_what_is_usable_and_how_to_fix_the_rest(project: Project, programs: Path) -> None:
    program(programs, "claude", "echo '2.3.4 (Claude Code)'")
    program(programs, "codex", "exit 9")
    done = project.call("doctor", env={"CODEX_API_KEY": KEY})
    assert done.code == 0
    found = " ".join(done.out.split())
    assert f"! claude 2.3.4 ({programs}/claude), but no API key or login was found fix: run `claude`" in found
    assert f"✓ codex {programs}/codex, CODEX_API_KEY is set" in found
    assert "· gemini not found fix: npm install -g @google/gemini-cli" in found
    # Whether the disk is fast enough depends on what else the machine does.
    assert re.search(r"(✓ writing writable|! writing writable, but slow) \(fsync ", found)
    assert done.lines[-1] == "AgentForge can run here."
    assert KEY not in done.out + done.err


@pytest.mark.parametrize(
    ("name", "login"),
    [
        ("claude", ".claude/.credentials.json"),
        ("codex", ".codex/auth.json"),
        ("opencode", ".local/share/opencode/auth.json"),
        ("gemini", ".gemini/oauth_creds.json"),
    ],
)
def test_doctor_sees_that_an_agent_is_logged_in(
    project: Project, programs: Path, name: str, login: str
) -> None:
    program(programs, name, "echo 1.0.0")
    assert checks(project)[f"agents/{name}"]["level"] == "warning"
    file = project.home / login
    file.parent.mkdir(parents=True)
    file.write_text(f'{{"token": "{KEY}"}}')
    check = checks(project)[f"agents/{name}"]
    assert (check["level"], f"logged in (~/{login})" in check["found"]) == ("ok", True)


@pytest.mark.parametrize(
    ("name", "variable", "login"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", ".credentials.json"),
        ("codex", "CODEX_HOME", "auth.json"),
        ("opencode", "XDG_DATA_HOME", "opencode/auth.json"),
    ],
)
def test_doctor_looks_for_a_login_where_a_variable_moved_it(
    project: Project, programs: Path, name: str, variable: str, login: str
) -> None:
    program(programs, name, "echo 1.0.0")
    file = project.home / "moved" / login
    file.parent.mkdir(parents=True)
    file.touch()
    moved = {variable: str(project.home / "moved")}
    assert checks(project, **moved)[f"agents/{name}"]["level"] == "ok"


def test_doctor_asks_programs_at_the_same_time(project: Project, programs: Path) -> None:
    """Each waits for all of them."""
    names = ("claude", "codex", "opencode", "gemini")
    asked = " ".join(f"-e {programs}/{name}-was-asked -a" for name in names)
    for name in names:
        waits = f"touch {programs}/{name}-was-asked; until [ {asked} 1 ]; do sleep 0.02; done"
        program(programs, name, f"{waits}; echo 1.0.0")
    found = checks(project)
    assert all("1.0.0" in found[f"agents/{name}"]["found"] for name in names)


def test_doctor_names_what_reaches_an_agent_and_shows_no_value(project: Project, programs: Path) -> None:
    program(programs, "claude", "echo 1.0.0")
    done = project.call("doctor", env={"ANTHROPIC_API_KEY": KEY, "MY_TOKEN": KEY})
    (line,) = [line for line in done.lines if "command" in line and "gets" in line]
    assert "ANTHROPIC_API_KEY (secret), MY_TOKEN (secret), HOME, LANG" in line
    assert KEY not in done.out + done.err
    assert KEY not in project.call("doctor", "--json", env={"ANTHROPIC_API_KEY": KEY}).out


def test_doctor_covers_models_sandboxes_and_providers(project: Project, programs: Path) -> None:
    site = project.home / "site"
    install(site, "bad-agents", "1 / 0", {"bad": "Agent"})
    install(
        site,
        "fine-agents",
        "import agentforge.testing as t\nAgent = lambda: t.ScriptedProvider([])",
        {"fine": "Agent"},
    )
    found = checks(project, PYTHONPATH=str(site))
    assert {"models/ollama", "models/lmstudio", "models/vllm", "sandboxes/docker", "agents/api"} <= set(found)
    assert found["sandboxes/bwrap"]["level"] in ("ok", "note")
    assert found["sandboxes/bwrap"]["level"] == "ok" or found["sandboxes/bwrap"]["fix"]
    assert "mock" in found["providers/built in"]["found"]
    assert found["providers/fine"] == {
        "group": "providers",
        "name": "fine",
        "level": "ok",
        "found": "entry point: fine-agents 1.2",
        "fix": "",
    }
    bad = found["providers/bad"]
    assert (bad["level"], "ZeroDivisionError" in bad["found"]) == ("warning", True)
    assert "uninstall bad-agents" in bad["fix"]
    assert programs.exists()


def test_doctor_finds_settings_of_the_provider_that_cannot_be_read(project: Project) -> None:
    found = checks(project, AGENTFORGE_PROVIDER_CONFIG="words")["settings/AGENTFORGE_PROVIDER_CONFIG"]
    assert (found["level"], found["fix"]) == ("broken", 'for example {"timeout": 60}')
    assert (
        checks(project, AGENTFORGE_PROVIDER_CONFIG="{a: 1}")["settings/AGENTFORGE_PROVIDER_CONFIG"]["level"]
        == "ok"
    )


def test_doctor_finds_bad_settings(project: Project) -> None:
    env = {
        "AGENT_PIPELINES_EVENT_BUFFER": "many",
        "STAGES_DIR": "/nosuch",
        "AGENT_PIPELINES_LEGACY": "1",
        "MOCK_MODE": "true",
        "AGENT_PIPELINES_LOG_LEVEL": "debug",
        "CLAUDE_PIPELINE_MODEL": "opus",
    }
    done = project.call("doctor", "--json", env=env)
    assert done.code == 1
    assert done.json["usable"] is False
    checks = {check["name"]: check for check in done.json["probes"]}
    assert checks["AGENT_PIPELINES_EVENT_BUFFER"]["level"] == "broken"
    assert checks["AGENT_PIPELINES_EVENT_BUFFER"]["fix"] == "use 1 or more"
    assert checks["STAGES_DIR"]["level"] == "warning"
    assert checks["AGENT_PIPELINES_LEGACY"]["fix"] == "unset AGENT_PIPELINES_LEGACY"
    assert checks["MOCK_MODE"]["level"] == "note"
    assert checks["AGENT_PIPELINES_LOG_LEVEL"]["level"] == "ok"
    assert checks["CLAUDE_PIPELINE_MODEL"]["found"] == "opus"
    shown = project.call("doctor", env=env)
    assert shown.code == 1
    assert shown.lines[-1] == "AgentForge can't run here yet: AGENT_PIPELINES_EVENT_BUFFER"


def test_doctor_says_that_no_agent_is_usable(project: Project, programs: Path) -> None:
    done = project.call("doctor")
    assert done.code == 0
    assert "! all agents" in done.out
    assert done.lines[-1] == "AgentForge can run here, but no agent is usable here: see above for what to do."
    found = checks(project, MOCK_MODE="true")
    assert "agents/all agents" not in found
    assert programs.exists()


def test_doctor_leaves_nothing_behind(project: Project) -> None:
    before = sorted(project.root.rglob("*"))
    project.call("doctor")
    assert sorted(project.root.rglob("*")) == before


def test_long_findings_wrap_with_a_hanging_indent_on_a_terminal(project: Project, programs: Path) -> None:
    project.env |= {f"VARIABLE_NUMBER_{number:02d}": "x" for number in range(20)}
    assert programs.exists()
    with on_a_terminal(project, "doctor") as screen:
        assert screen.end() == 0
    lines = screen.text.splitlines()
    at = next(number for number, line in enumerate(lines) if "gets your whole environment" in line)
    column = lines[at].index("gets")
    assert lines[at + 1].startswith(" " * column)
    assert lines[at + 1].strip().startswith(("VARIABLE_NUMBER", "HOME", "LANG", "TMPDIR"))
