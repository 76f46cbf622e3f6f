"""Agents that are programs, under a living engine: outcomes, limits, and being ended."""

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.agents import ENVIRON, PATIENT, agents, end_left, engine, shell
from tests.runtime.attempt_run import eventually, lives
from tests.sdk.projects import eventually as soon
from tests.sdk.projects import iteration_dir, load, pipeline, run, types

from agentforge.model.status import RunStatus
from agentforge.ports.host import Clock
from agentforge.testing import FakeClock
from agentforge.testing.clock_contract import ClockContract
from agentforge.views.results import RunResult


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    end_left(tmp_path)


def go(project: Path, *nodes: dict[str, Any], **options: Any) -> RunResult:
    async def main() -> RunResult:
        async with engine(project, **options) as sdk:
            return await sdk.run(pipeline(*nodes), session="s")

    return run(main())


ONCE = {"max_attempts": 1}
WRITES = 'printf \'{"summary": "done"}\' > "$MOCK_RESULT_FILE"'


def test_program_gets_its_prompt_its_place_and_its_mark(project: Path) -> None:
    script = f'cat > prompt; pwd > place; echo "$AGENTFORGE_ATTEMPT" > mark; {WRITES}'
    result = go(project, shell(script, prompt="iteration ${ITERATION}"))
    assert result.completed
    assert (project / "prompt").read_text() == "iteration 1"
    assert (project / "place").read_text().strip() == str(project)
    assert re.search(r"/0/1/1/1@[0-9a-f]+$", (project / "mark").read_text().strip())


def test_program_that_exits_with_a_failure_is_a_crashed_provider(project: Path) -> None:
    result = go(project, shell("echo out; echo err >&2; exit 9", retry=ONCE))
    assert (result.error_type, result.error) == ("provider_crashed", "command exited with status 9: err")
    assert load(iteration_dir(project) / "error.json")["exit_code"] == 9
    assert (iteration_dir(project) / "output.md").read_text() == "out\nerr\n"


def test_program_killed_by_a_signal_is_a_crashed_provider(project: Path) -> None:
    result = go(project, shell("kill -SEGV $$", retry=ONCE))
    assert result.error_type == "provider_crashed"
    assert load(iteration_dir(project) / "error.json")["exit_code"] == 128 + 11


def test_program_that_is_missing_fails_at_once_with_guidance(project: Path) -> None:
    node = shell("", retry={"max_attempts": 5}) | {"provider": {"type": "command", "argv": ["no-such-agent"]}}
    result = go(project, node)
    assert result.error_type == "provider_missing"
    assert "program 'no-such-agent' not found in PATH" in str(result.error)
    assert "install it" in str(result.error)
    assert types(project).count("attempt_start") == 1


def test_program_that_takes_too_long_is_an_iteration_timeout(project: Path) -> None:
    result = go(project, shell(PATIENT, timeout=0.3, retry=ONCE))
    assert (result.error_type, result.error) == (
        "iteration_timeout",
        "the agent was ended after 0.3 s",
    )
    assert not lives(load(iteration_dir(project) / "attempt-1" / "agent.json")["pid"])


class ClockOfTheAgent(FakeClock):
    """No time passes until the agent runs, however long the engine takes to start it."""

    def __init__(self, agent: Path) -> None:
        super().__init__()
        self._agent = agent

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._agent.exists())


@pytest.mark.parametrize("there", [False, True])
class TestClockOfTheAgent(ClockContract):
    @pytest.fixture
    def clock(self, tmp_path: Path, there: bool) -> Clock:
        if there:
            (tmp_path / "agent.json").touch()
        return ClockOfTheAgent(tmp_path / "agent.json")


def test_runtime_limit_bounds_an_attempt(project: Path) -> None:
    limited = shell(PATIENT, retry=ONCE, guardrails={"max_runtime_seconds": 0.3})
    agent = iteration_dir(project) / "attempt-1" / "agent.json"
    result = go(project, limited, clock=ClockOfTheAgent(agent))
    assert (result.status, result.reason) == ("paused", "runtime_limit")
    assert [request.question for request in result.requests] == [
        "the runtime limit of 0.3 s is used up. Extend it by the same amount?"
    ]
    here = iteration_dir(project)
    assert load(here / "error.json")["type"] == "iteration_timeout"
    assert load(here / "error.json")["message"] == "the agent was ended after the runtime limit"
    assert not lives(load(agent)["pid"])


def test_program_without_output_for_too_long_is_a_provider_timeout(project: Path) -> None:
    result = go(project, shell(f"echo hello; {PATIENT}", idle_timeout=0.3, retry=ONCE))
    assert (result.error_type, result.error) == (
        "provider_timeout",
        "the agent produced no output for 0.3 s",
    )


def test_program_is_retried_and_its_output_is_the_last_attempt_s(project: Path) -> None:
    script = f"echo run >> tries; wc -l < tries; [ $(wc -l < tries) = 2 ] || exit 1; {WRITES}"
    result = go(project, shell(script, retry={"initial_delay": 0}))
    assert result.completed
    here = iteration_dir(project)
    assert (here / "output.md").read_text() == "2\n"
    assert (here / "attempt-1" / "output.md").read_text() == "1\n"
    assert (here / "attempt-1" / "output.log").read_text() == "1\n"


def test_pause_now_ends_everything_that_the_agent_started(project: Path) -> None:
    script = f"(sleep 60 & echo $! > child; wait) & {PATIENT}"

    async def main() -> None:
        async with engine(project) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(shell(script)), session="s"))
            child = project / "child"
            await soon(lambda: agents(project) and child.exists() and child.read_text())
            await sdk.pause("s", now=True)
            result = await going
            assert result.status is RunStatus.PAUSED

    run(main())
    child = int((project / "child").read_text())
    assert not lives(agents(project)[0])
    eventually(lambda: not lives(child))
    assert types(project)[-3:] == ["attempt_ending", "attempt_cancelled", "session_paused"]


def test_signal_during_provider_execution_lets_it_finish_within_the_grace(project: Path) -> None:
    async def main() -> None:
        async with engine(project, stop_grace=10) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(shell(PATIENT, runs=2)), session="s"))
            await soon(lambda: agents(project))
            sdk.interrupt()
            await soon(lambda: "pause_requested" in types(project))
            (project / "go").touch()
            result = await going
        assert (result.status, result.iterations) == (RunStatus.PAUSED, 1)

    run(main())
    assert len(agents(project)) == 1


def test_result_in_another_form_than_the_engine_s_is_replaced_whole(project: Path) -> None:
    script = 'printf \'{ "summary" :  "pretty" }\' > "$MOCK_RESULT_FILE"'
    assert go(project, shell(script)).completed
    text = (iteration_dir(project) / "result.json").read_text()
    assert text.startswith('{"summary":"pretty","work":')
    assert not list(iteration_dir(project).glob("*.tmp"))


def test_status_file_of_a_program_is_enough(project: Path) -> None:
    script = 'printf \'{"decision": "stop", "summary": "x"}\' > "$MOCK_STATUS_FILE"'
    result = go(project, shell(script, runs=4))
    assert (result.status, result.iterations) == (RunStatus.COMPLETED, 1)


def test_environment_of_the_engine_reaches_the_program_and_nothing_else_does(project: Path) -> None:
    result = go(
        project, shell(f"env > env; {WRITES}"), environ={**ENVIRON, "HOME": str(project), "TEAM": "red"}
    )
    assert result.completed
    names = {line.split("=")[0] for line in (project / "env").read_text().splitlines() if "=" in line}
    assert {"TEAM", "HOME", "CLAUDE_PIPELINE_AGENT", "AGENTFORGE_ATTEMPT"} <= names
    assert "PYTEST_CURRENT_TEST" not in names
