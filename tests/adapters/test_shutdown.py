"""Whether the machine is shutting down, as stand-ins for the programs of its init answer."""

from pathlib import Path

import pytest

from agentforge.adapters.host.machine import is_shutting_down


def environ(tmp_path: Path, **programs: str) -> dict[str, str]:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, answer in programs.items():
        (tools / name).write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n{answer}\n')
        (tools / name).chmod(0o755)
    return {"PATH": str(tools)}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("echo stopping; exit 1", True),
        ("echo running", False),
        ("echo offline; exit 1", False),
        ("exit 1", False),
    ],
)
def test_systemd_is_asked_for_the_state_of_the_system(tmp_path: Path, answer: str, expected: bool) -> None:
    env = environ(tmp_path, systemctl=answer)
    assert is_shutting_down(env, str(tmp_path / "project")) is expected
    assert (tmp_path / "asked").read_text() == "is-system-running\n"


@pytest.mark.parametrize(
    ("level", "expected"), [("2 0", True), ("N 6", True), ("N 5", False), ("unknown", False)]
)
def test_another_init_is_asked_for_its_runlevel(tmp_path: Path, level: str, expected: bool) -> None:
    env = environ(tmp_path, systemctl="echo offline; exit 1", runlevel=f"echo {level}")
    assert is_shutting_down(env, str(tmp_path / "project")) is expected


def test_a_machine_that_cannot_tell_is_not_shutting_down(tmp_path: Path) -> None:
    assert not is_shutting_down({"PATH": str(tmp_path)}, str(tmp_path / "project"))


def test_a_program_of_the_project_is_not_asked(tmp_path: Path) -> None:
    assert not is_shutting_down(environ(tmp_path, systemctl="echo stopping"), str(tmp_path))
