"""Desktop notifications: through the available program, and never a failure."""

import os
from pathlib import Path

import pytest

from agentforge.adapters.host.machine import notify

Capture = pytest.CaptureFixture[str]


def program(folder: Path, name: str, script: str) -> dict[str, str]:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_notification_by_osascript_is_quoted(tmp_path: Path) -> None:
    env = program(tmp_path, "osascript", f'printf "%s\\n" "$@" > {tmp_path}/told')
    notify("Loop Agent", 'a "b" \\ c', env)
    assert (tmp_path / "told").read_text().splitlines() == [
        "-e",
        'display notification "a \\"b\\" \\\\ c" with title "Loop Agent"',
    ]


def test_notification_by_notify_send_needs_a_desktop(tmp_path: Path) -> None:
    env = program(tmp_path, "notify-send", f'printf "%s\\n" "$@" > {tmp_path}/told')
    notify("Loop Agent", "-x", env)
    assert not (tmp_path / "told").exists()
    notify("Loop Agent", "-x", {**env, "WAYLAND_DISPLAY": "w"})
    assert (tmp_path / "told").read_text().splitlines() == ["--", "Loop Agent", "-x"]


@pytest.mark.parametrize("script", ["exit 3", "kill -9 $$"])
def test_failed_notification_is_ignored(tmp_path: Path, script: str, capfd: Capture) -> None:
    env = program(tmp_path, "notify-send", f"echo tried > {tmp_path}/told; echo failed >&2; {script}")
    notify("a", "b", {**env, "DISPLAY": ":0"})
    assert (tmp_path / "told").exists()
    assert capfd.readouterr() == ("", "")


def test_notification_without_a_program_does_nothing(tmp_path: Path, capfd: Capture) -> None:
    notify("a", "b", {"PATH": str(tmp_path), "DISPLAY": ":0"})
    (tmp_path / "notify-send").write_text("no program")
    (tmp_path / "notify-send").chmod(0o755)
    notify("a", "b", {"PATH": str(tmp_path), "DISPLAY": ":0"})
    assert capfd.readouterr() == ("", "")
