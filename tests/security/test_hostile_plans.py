"""A plan in a log is checked like a compiled one: looking at a hostile log is quick, and it names no path."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

from agentforge.model import codec

QUICK = 30.0
"""Seconds; unrolling such a plan takes minutes and gigabytes."""


def completed(project: Project, session: str) -> None:
    done = project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", session)
    assert done.code == 0, done.err


def rewrite(run_dir: Path, change: Callable[[Any], None]) -> None:
    """Change the first event of the log, and chain all lines again."""
    log, previous, lines = run_dir / "events.jsonl", codec.GENESIS, []
    for number, line in enumerate(log.read_bytes().splitlines()):
        event = json.loads(line)
        del event["hash"]
        if number == 0:
            change(event)
        body = json.dumps(event, separators=(",", ":")).encode()[:-1]
        previous = codec.computed_hash(body + b" " * codec.SUFFIX_BYTES, previous)
        lines.append(body + b',"hash":"%b"}\n' % previous.encode())
    log.write_bytes(b"".join(lines))
    (run_dir / "state.json").unlink()


def with_passes(event: Any) -> None:
    event["data"]["plan"]["passes"] = 10**9


def with_path(event: Any) -> None:
    event["data"]["plan"]["nodes"][0]["id"] = "x/../../../../../../tmp/t"


def with_session(event: Any) -> None:
    event["session"] = "../../x"


CHANGES = {
    "passes": (with_passes, "runs 1,000,000,000 times"),
    "id": (with_path, "cannot be used as a directory name"),
    "session": (with_session, "Session name"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_hostile_plan_is_damage_that_names_run_and_line(project: Project, case: str) -> None:
    change, why = CHANGES[case]
    completed(project, "other")
    completed(project, "mine")
    rewrite(project.run_dir("mine"), change)
    began = time.monotonic()
    status = project.call("status", "mine")
    assert status.code == 1
    assert "session 'mine'" in status.err
    assert "line 1" in status.err
    assert why in status.err
    listed = project.call("list", "--json")
    assert listed.code == 0
    assert {row["session"]: row["status"] for row in listed.json} == {"mine": "unknown", "other": "completed"}
    for command in ("resume", "cancel"):
        refused = project.call(command, "mine")
        assert refused.code == 1
        assert "unexpected" not in refused.err
    assert project.call("recover").code == 0
    assert time.monotonic() - began < QUICK * 6
    again = project.call("run", "-p", "p.yaml", "-s", "mine", "--force")
    assert again.code == 0, again.err


def linked(path: Path) -> None:
    path.symlink_to("/dev/zero")


def piped(path: Path) -> None:
    os.mkfifo(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(60 * 2**30)


def nested(path: Path) -> None:
    path.write_text('{"snapshot":' + "[" * 200_000)


@pytest.mark.parametrize("make", [linked, piped, huge, nested, Path.mkdir])
def test_state_file_is_only_a_cache(project: Project, make: Callable[[Path], None]) -> None:
    completed(project, "mine")
    state = project.run_dir("mine") / "state.json"
    state.unlink()
    make(state)
    done = project.call("status", "mine", "--json")
    assert done.code == 0, done.err
    assert done.json["status"] == "completed"
    assert project.call("list", "--json").json[0]["status"] == "completed"
