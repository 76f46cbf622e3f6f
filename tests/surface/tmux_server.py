"""A separate tmux server for a test: its socket is in the test's folder, so no other server is affected."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="program: needs tmux")


class TmuxServer:
    def __init__(self, folder: Path) -> None:
        # A socket's path may be about a hundred characters long, a test's folder is often longer.
        self.folder = folder
        self.env = {"TMUX_TMPDIR": str(folder)}

    def call(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", *arguments],
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return done.stdout.decode().strip()

    def sessions(self) -> list[str]:
        return self.call("list-sessions", "-F", "#{session_name}").splitlines()

    def windows(self) -> list[str]:
        return self.call("list-windows", "-a", "-F", "#{session_name}/#{window_name}").splitlines()

    def end(self) -> None:
        self.call("kill-server")
