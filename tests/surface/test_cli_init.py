"""`agentforge init`: what it shows, asks and writes."""

from pathlib import Path

import pytest
from tests.surface.screen import on_a_terminal
from tests.surface.terminal import Project

from agentforge.cli.main import call


def agents(project: Project, *names: str) -> dict[str, str]:
    """An environment in which these agents are installed and logged in."""
    for name in names:
        path = project.home / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\nexit 1\n")
        path.chmod(0o755)
    keys = {"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x"}
    return {"PATH": f"{project.home}/bin:/usr/bin:/bin", **keys}


def test_two_questions_on_a_terminal(project: Project) -> None:
    (project.root / "go.mod").write_text("module x\n")
    with on_a_terminal(project, "init", **agents(project, "claude", "codex")) as screen:
        screen.until("Agent to use (claude, codex) [claude]: ")
        screen.type("codex\n")
        screen.until("Test command (`none` for no tests) [go test ./...]: ")
        screen.type("make check\n")
        assert screen.end() == 0
    text = screen.text
    assert "Language: Go, tested with `go test ./...`" in text
    added, written = text.index("Adds to .gitignore:"), text.index("created .claude/pipelines/change.yaml")
    assert added < text.index("/.claude/pipeline-runs/") < written < text.index("Next:")
    pipeline = (project.root / ".claude/pipelines/change.yaml").read_text()
    assert "provider: codex" in pipeline
    assert "make check\n" in pipeline


def test_leaving_at_a_question_writes_nothing(project: Project) -> None:
    with on_a_terminal(project, "init") as screen:
        screen.until("Test command (`none` for no tests) [none]: ")
        screen.type("\x04")
        assert screen.end() == 130
    assert list(project.root.iterdir()) == []


def test_yes_asks_nothing(project: Project) -> None:
    with on_a_terminal(project, "init", "--yes", **agents(project, "claude", "codex")) as screen:
        assert screen.end() == 0
    assert "provider: claude" in (project.root / ".claude/pipelines/change.yaml").read_text()


def test_without_a_usable_agent_it_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert call(["-C", str(tmp_path), "init", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert "Agent:    none is installed" in shown
    assert "Make claude usable first: npm install -g @anthropic-ai/claude-code" in shown
    assert f'agentforge -C {tmp_path} run -p change "Add type hints"' in shown


def test_a_link_is_one_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/.gitignore").symlink_to(tmp_path / "elsewhere")
    assert call(["-C", str(tmp_path / "project"), "init"]) == 1
    assert "Error: " in (shown := capsys.readouterr().err)
    assert ".gitignore is a link" in shown
    assert f"hint: correct this, then run `agentforge -C {tmp_path / 'project'} init` again" in shown


def test_a_built_in_pipeline_is_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["-C", str(tmp_path), "init", "--from", "loop", "mine"]) == 0
    assert "created .claude/pipelines/mine.yaml" in capsys.readouterr().out
    assert call(["-C", str(tmp_path), "init", "mine"]) == 2
    assert "use it with --from PIPELINE" in capsys.readouterr().err
