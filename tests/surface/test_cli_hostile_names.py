"""Session names are refused before any path is touched, whichever command they reach."""

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

HOSTILE = {
    "parent": "../x",
    "absolute": "/tmp/x",
    "empty": "",
    "300 characters": "x" * 300,
    "hidden": ".x",
    "slash": "a/b",
    "newline": "a\nb",
    "escape": "a\x1b[31mb",
    "blank": "a b",
    "65 wide": "é" * 65,
}

COMMANDS = {
    "run": ("run", "-p", "p.yaml", "-s", "NAME"),
    "pipeline": ("pipeline", "p.yaml", "NAME"),
    "loop": ("loop", "work", "NAME"),
    "status": ("status", "NAME"),
    "tail": ("tail", "NAME"),
    "resume": ("resume", "NAME"),
    "recover": ("recover", "NAME"),
    "pause": ("pause", "NAME"),
    "cancel": ("cancel", "NAME"),
    "log verify": ("log", "verify", "NAME"),
    "log spans": ("log", "spans", "NAME"),
}


FEW = ("parent", "empty", "300 characters")
CASES = [("run", name) for name in HOSTILE]
CASES += [(command, name) for command in COMMANDS if command != "run" for name in FEW]


@pytest.mark.parametrize(("command", "hostile"), CASES)
def test_hostile_session_names_are_refused_before_any_path_is_touched(
    project: Project, command: str, hostile: str
) -> None:
    project.pipeline(f"plan={WRITE_RESULT}")
    parent = sorted(project.root.parent.rglob("*"))
    name = HOSTILE[hostile]
    done = project.call(*(name if word == "NAME" else word for word in COMMANDS[command]))
    assert done.code == 2
    assert "Session name" in done.err
    assert "\x1b" not in done.err
    assert sorted(project.root.parent.rglob("*")) == parent


def test_hostile_names_as_json(project: Project) -> None:
    done = project.call("status", "../x", "--json")
    assert done.code == 2
    assert done.json["error"]["code"] == "invalid_session"


@pytest.mark.parametrize("name", ["größe", "日本語", "a.b-c_d", "-dash", "x" * 64])
def test_unicode_session_names_are_fine(project: Project, name: str) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("run", "-p", file, f"--session={name}").code == 0
    assert project.call("status", "--", name).out.startswith(f"Session: {name}\n")
    assert name in project.call("list").out
    assert project.call("log", "verify", "--", name).code == 0


def test_a_decomposed_name_means_the_same_session(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("run", "-p", file, "-s", "größe").code == 0
    assert project.call("status", "größe").out.startswith("Session: größe\n")
