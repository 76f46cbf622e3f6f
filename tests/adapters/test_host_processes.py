"""The adapter for the system at hand, and starting the supervisor program from its bytecode."""

import os
import sys
from pathlib import Path

import pytest

from agentforge.adapters.host.processes import (
    LinuxProcesses,
    MacProcesses,
    SupervisorStarter,
    compiled,
    host_processes,
)
from agentforge.model.errors import AgentForgeError


@pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc")
def test_linux_and_macos_have_their_adapters() -> None:
    assert isinstance(host_processes("supervisor.py", "linux"), LinuxProcesses)
    assert isinstance(host_processes("supervisor.py", "darwin"), MacProcesses)


@pytest.mark.parametrize(("platform", "name"), [("win32", "Windows"), ("sunos5", r"this system \(sunos5\)")])
def test_windows_and_others_are_rejected_clearly(platform: str, name: str) -> None:
    with pytest.raises(AgentForgeError, match=f"AgentForge doesn't support {name}") as refused:
        host_processes("supervisor.py", platform)
    assert "use Linux or macOS" in refused.value.hint


def test_bytecode_is_made_once_and_again_when_the_script_changes(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("answer = 1\n")
    first = compiled(str(script))
    assert first.endswith(".pyc")
    made = Path(first).stat().st_mtime_ns
    assert compiled(str(script)) == first
    assert Path(first).stat().st_mtime_ns == made
    old = Path(first).read_bytes()
    script.write_text("answer = 1234\n")
    assert compiled(str(script)) == first
    assert Path(first).read_bytes() != old


def test_script_itself_runs_where_no_bytecode_can_be_written(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("answer = 1\n")
    (tmp_path / "__pycache__").write_text("in the way")
    assert compiled(str(script)) == str(script)


def test_failed_start_of_the_supervisor_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("")
    monkeypatch.setattr(sys, "executable", os.devnull)
    with pytest.raises(AgentForgeError, match="can't start the supervisor with /dev/null: Permission denied"):
        SupervisorStarter(str(script)).start(str(tmp_path))
