"""What people see of the providers of a parallel block, while it runs and when one of them failed."""

import re
from pathlib import Path

import pytest
from tests.surface.screen import on_a_terminal
from tests.surface.terminal import WRITE_RESULT, Project

BLOCK = """
name: debate
nodes:
  - id: duel
    parallel:
      providers: [claude, codex]
      stages:
        - {id: ideas, prompt: think, runs: 2, delay: 0, retry: {max_attempts: 1}}
        - {id: rate, prompt: rate, delay: 0, retry: {max_attempts: 1}}
"""


@pytest.fixture
def agents(project: Project) -> Path:
    """A folder for the programs `claude` and `codex`, first in the path."""
    folder = project.home / "agents"
    folder.mkdir()
    project.env["PATH"] = f"{folder}:{project.env['PATH']}"
    (project.root / "p.yaml").write_text(BLOCK)
    return folder


def agent(folder: Path, name: str, shell: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\ncat >/dev/null\n{shell}\n")
    (folder / name).chmod(0o755)


def test_status_has_a_line_for_each_provider_of_a_block(project: Project, agents: Path) -> None:
    agent(agents, "claude", WRITE_RESULT)
    agent(agents, "codex", "echo no luck; exit 3")
    assert project.call("run", "-p", "p.yaml", "-s", "auth").code == 1
    done = project.call("status", "auth")
    assert [re.sub(r": codex exited.*", ": …", line) for line in done.lines[-4:]] == [
        "Stages:",
        "  ✗ duel  3/6",
        "      ✓ claude  3/3  done",
        "      ✗ codex   0/3  ideas  ideas: …",
    ]
    branches = project.call("status", "auth", "--json").json["stages"][0]["branches"]
    assert [(b["provider"], b["mark"], b["completed"]) for b in branches] == [
        ("claude", "done", 3),
        ("codex", "failed", 0),
    ]
    # Completed work stays completed when the run continues.
    agent(agents, "codex", WRITE_RESULT)
    assert project.call("resume", "auth").code == 0
    assert project.types("auth").count("iteration_complete") == 6


def test_lines_name_the_provider(project: Project, agents: Path) -> None:
    agent(agents, "claude", WRITE_RESULT)
    agent(agents, "codex", WRITE_RESULT)
    lines = project.call("run", "-p", "p.yaml", "-s", "auth").lines
    assert "[HH:MM:SS] ▸ duel started: claude, codex in parallel" in lines
    assert "[HH:MM:SS] ✓ claude: ideas 2/2 done in Ns: did it" in lines
    assert "[HH:MM:SS] ✓ codex: rate is done: Completed 1 iteration (max: 1)" in lines


def test_live_display_has_a_row_for_each_provider(project: Project, agents: Path) -> None:
    agent(agents, "claude", WRITE_RESULT)
    agent(agents, "codex", f"while [ ! -e go ]; do sleep 0.02; done; {WRITE_RESULT}")
    with on_a_terminal(project, "run", "-p", "p.yaml", "-s", "auth") as screen:
        screen.until("3/3  done")
        screen.until("0/3  ideas")
        (project.root / "go").touch()
        assert screen.end() == 0
    assert "claude" in screen.text
