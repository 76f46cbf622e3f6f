"""Definitions that a repository brings: links to devices and huge files cost neither memory nor time."""

import os
import sys

import pytest
from tests.surface.terminal import Project

COMMANDS = {"lint": ("lint",), "stages": ("stages",), "providers": ("providers",), "doctor": ("doctor",)}


def hostile(project: Project) -> None:
    project.stage("device")
    stages = project.root / ".claude" / "stages"
    (stages / "device" / "stage.yaml").unlink()
    (stages / "device" / "stage.yaml").symlink_to("/dev/zero")
    project.stage("huge")
    os.truncate(stages / "huge" / "stage.yaml", 60 << 30)
    providers = project.root / ".agentforge" / "providers"
    providers.mkdir(parents=True)
    (providers / "device.yaml").symlink_to("/dev/zero")
    (providers / "huge.yaml").touch()
    os.truncate(providers / "huge.yaml", 60 << 30)


@pytest.mark.parametrize("command", COMMANDS)
def test_looking_at_devices_and_huge_files(project: Project, command: str) -> None:
    hostile(project)
    limited = ("sh", "-c", 'ulimit -v 3000000; exec "$0" -m agentforge "$@"')
    done = project.call_program(*limited, sys.executable, *COMMANDS[command])
    assert "Traceback" not in done.err
    assert "MemoryError" not in done.out + done.err
    if command == "lint":
        assert "the file is larger than 1000000 bytes" in done.out
    if command == "providers":
        assert "huge" in done.out
