"""A program run without a supervisor: separate stderr, redacted secrets, cleanup."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import eventually

from agentforge.adapters.cli_agents.program import run_once
from agentforge.ports.provider import Command

ENV = {"PATH": os.environ["PATH"]}
KEY = "sk-0123456789"


def shell(script: str, **asked: Any) -> Command:
    return Command(("sh", "-c", script), ENV, **asked)


def test_errors_are_kept_apart_if_asked_for(tmp_path: Path) -> None:
    ended = asyncio.run(run_once(shell("echo out; echo err >&2", separate_errors=True), str(tmp_path)))
    assert (ended.output, ended.errors) == ("out\n", "err\n")


def test_errors_are_part_of_the_output_otherwise(tmp_path: Path) -> None:
    ended = asyncio.run(run_once(shell("echo out; echo err >&2"), str(tmp_path)))
    assert (ended.output, ended.errors) == ("out\nerr\n", "")


def test_secrets_are_hidden_in_both(tmp_path: Path) -> None:
    command = shell(f"echo {KEY}; echo {KEY} >&2", separate_errors=True, secrets=(KEY,))
    ended = asyncio.run(run_once(command, str(tmp_path)))
    assert (ended.output, ended.errors) == ("[secret]\n", "[secret]\n")


def test_cleanup_runs_when_the_program_exits(tmp_path: Path) -> None:
    after = ("sh", "-c", "cat first > second")
    asyncio.run(run_once(shell("echo done > first", after=after), str(tmp_path)))
    assert (tmp_path / "second").read_text() == "done\n"


def test_cleanup_runs_when_the_program_is_killed(tmp_path: Path) -> None:
    async def cancelled() -> None:
        line = shell("touch first; sleep 600", after=("touch", "second"))
        going = asyncio.create_task(run_once(line, str(tmp_path)))
        await eventually((tmp_path / "first").exists)
        going.cancel()
        await going

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert (tmp_path / "second").exists()


def test_missing_cleanup_program_is_ignored(tmp_path: Path) -> None:
    ended = asyncio.run(run_once(shell("exit 3", after=("no-such-program",)), str(tmp_path)))
    assert ended.exit_code == 3
