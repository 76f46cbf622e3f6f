"""A program run without a supervisor: separate stderr, redacted secrets, cleanup."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import eventually

from agentforge.adapters.cli_agents.program import ProgramProvider, run_once
from agentforge.ports.provider import Capabilities, Command, ExecuteRequest

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


class CleaningProvider(ProgramProvider):
    """Runs a line of shell, and a program after it."""

    def __init__(self, script: str, *argv: str) -> None:
        super().__init__("cleaning")
        self.script, self.argv = script, argv

    def capabilities(self) -> Capabilities:
        return Capabilities()

    def validate(self) -> None:
        """Always usable."""

    def command(self, request: ExecuteRequest) -> Command:
        return shell(self.script)

    def cleanup(self, mark: str) -> tuple[str, ...]:
        assert mark == "run/0/1/1/1@0"
        return self.argv


def request(folder: Path) -> ExecuteRequest:
    environment = {"AGENTFORGE_ATTEMPT": "run/0/1/1/1@0"}
    return ExecuteRequest("", "", {}, str(folder), environment, str(folder / "s"), str(folder / "r"))


def test_cleanup_runs_when_the_program_exits(tmp_path: Path) -> None:
    provider = CleaningProvider("echo done > first", "sh", "-c", "cat first > second")
    asyncio.run(provider.execute(request(tmp_path)))
    assert (tmp_path / "second").read_text() == "done\n"


def test_cleanup_runs_when_the_program_is_killed(tmp_path: Path) -> None:
    async def cancelled() -> None:
        provider = CleaningProvider("touch first; sleep 600", "touch", "second")
        going = asyncio.create_task(provider.execute(request(tmp_path)))
        await eventually((tmp_path / "first").exists)
        going.cancel()
        await going

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert (tmp_path / "second").exists()


def test_missing_cleanup_program_is_ignored(tmp_path: Path) -> None:
    provider = CleaningProvider("exit 3", "no-such-program")
    assert asyncio.run(provider.execute(request(tmp_path))).exit_code == 3
