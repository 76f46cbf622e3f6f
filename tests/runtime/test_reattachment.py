"""Engines that die while real agents work: reattached to, concluded from their exit record, or lost."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.agents import PATIENT, EngineProcess, agents, end_left, engine, shell, supervisor
from tests.runtime.attempt_run import eventually, lives
from tests.sdk.projects import cut_log, iteration_dir, load, pipeline, run, run_dir, types
from tests.sdk.projects import eventually as soon

from agentforge.model.status import RunStatus
from agentforge.testing import ObservedSession, assert_event_sequence, assert_iteration_count

pytestmark = pytest.mark.crash


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    end_left(tmp_path)


def facts(project: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run_dir(project) / "events.jsonl").read_text().splitlines())
    return [line["data"] for line in lines if line["type"] == kind]


def test_running_agent_is_reattached_and_not_run_twice(project: Path) -> None:
    pid = EngineProcess(project, shell(PATIENT)).kill_while_running()
    assert lives(pid), "the agent outlives its engine"

    async def main() -> None:
        async with engine(project) as sdk:
            assert sdk.status("s").status == "interrupted"
            recovering = asyncio.create_task(sdk.recover("s"))
            await soon(lambda: "attempt_reattached" in types(project))
            (project / "go").touch()
            result = await recovering
        assert result is not None
        assert result.completed

    run(main())
    assert agents(project) == [pid]
    assert facts(project, "attempt_reattached") == [{"attempt": 1, "pid": supervisor(project)}]
    assert load(iteration_dir(project) / "result.json")["summary"] == f"done by {pid}"
    assert (iteration_dir(project) / "output.md").read_text() == "said\n"
    assert_iteration_count(ObservedSession(project, "s"), 1)


def test_third_engine_reattaches_to_the_agent_again(project: Path) -> None:
    pid = EngineProcess(project, shell(PATIENT)).kill_while_running()

    async def look_and_leave() -> None:
        async with engine(project) as sdk:
            recovering = asyncio.create_task(sdk.recover("s"))
            await soon(lambda: len(facts(project, "attempt_reattached")) == 1)
            driver = sdk._context.drivers["s"]
            assert driver is not None
            # As if it were killed: nothing more is recorded, and the agent is left alone.
            for task in asyncio.all_tasks():
                if task not in (asyncio.current_task(), recovering) and "drive" in repr(task):
                    task.cancel()
            await asyncio.wait([recovering])

    async def finish() -> None:
        async with engine(project) as sdk:
            recovering = asyncio.create_task(sdk.recover("s"))
            await soon(lambda: len(facts(project, "attempt_reattached")) == 2)
            (project / "go").touch()
            result = await recovering
        assert result is not None
        assert result.completed

    run(look_and_leave())
    assert lives(pid)
    run(finish())
    assert agents(project) == [pid]


def test_exit_record_of_an_agent_that_finished_without_an_engine_counts(project: Path) -> None:
    pid = EngineProcess(project, shell(PATIENT)).kill_while_running()
    (project / "go").touch()
    eventually((iteration_dir(project) / "attempt-1" / "exit.json").exists)

    async def main() -> None:
        async with engine(project) as sdk:
            result = await sdk.recover("s")
        assert result is not None
        assert result.completed

    run(main())
    assert agents(project) == [pid]
    assert facts(project, "attempt_reattached") == []
    assert load(iteration_dir(project) / "result.json")["summary"] == f"done by {pid}"


def test_failure_of_an_agent_without_an_engine_counts_as_its_failure(project: Path) -> None:
    script = PATIENT + "\nrm go; exit 3"
    EngineProcess(project, shell(script, retry={"max_attempts": 1})).kill_while_running()
    (project / "go").touch()
    eventually((iteration_dir(project) / "attempt-1" / "exit.json").exists)

    async def main() -> None:
        async with engine(project) as sdk:
            result = await sdk.recover("s")
        assert result is not None
        assert (result.status, result.error_type) == (RunStatus.FAILED, "provider_crashed")
        assert result.error == "command exited with status 3: said"

    run(main())


def test_agent_whose_supervisor_was_killed_is_ended_and_its_attempt_lost(project: Path) -> None:
    """Engine and supervisor die; the agent is unsupervised, so it must not run beside the next attempt."""
    first = EngineProcess(project, shell(PATIENT)).kill_while_running()
    os.kill(supervisor(project), signal.SIGKILL)

    async def main() -> None:
        async with engine(project) as sdk:
            recovering = asyncio.create_task(sdk.recover("s"))
            await soon(lambda: len(agents(project)) == 2)
            assert not lives(first), "two agents at one iteration"
            (project / "go").touch()
            result = await recovering
        assert result is not None
        assert result.completed

    run(main())
    assert facts(project, "attempt_lost") == [
        {"attempt": 1, "reason": "its supervisor died", "started": True}
    ]
    records = (iteration_dir(project) / "attempts.jsonl").read_text().splitlines()
    assert [json.loads(line)["status"] for line in records] == ["lost", "success"]


def test_supervisor_killed_under_a_living_engine_loses_the_attempt_and_costs_no_retry(project: Path) -> None:
    async def main() -> None:
        async with engine(project) as sdk:
            alone = pipeline(shell(PATIENT, retry={"max_attempts": 1}))
            going = asyncio.create_task(sdk.run(alone, session="s"))
            await soon(lambda: agents(project))
            os.kill(supervisor(project), signal.SIGKILL)
            await soon(lambda: len(agents(project)) == 2)
            assert not lives(agents(project)[0])
            (project / "go").touch()
            assert (await going).completed

    run(main())
    assert [fact["reason"] for fact in facts(project, "attempt_lost")] == ["its supervisor died"]


def test_supervisor_ended_by_another_process_loses_the_attempt(project: Path) -> None:
    async def main() -> None:
        async with engine(project) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(shell(PATIENT)), session="s"))
            await soon(lambda: agents(project))
            os.kill(supervisor(project), signal.SIGTERM)
            await soon(lambda: len(agents(project)) == 2)
            (project / "go").touch()
            assert (await going).completed

    run(main())
    assert [fact["reason"] for fact in facts(project, "attempt_lost")] == ["ended by another process"]


def test_orphaned_agent_is_ended_and_its_attempt_lost(project: Path) -> None:
    pid = EngineProcess(project, shell(PATIENT), orphan_grace=0.2).kill_while_running()
    exit_record = iteration_dir(project) / "attempt-1" / "exit.json"
    eventually(exit_record.exists)
    assert load(exit_record)["status"] == "orphaned"
    assert not lives(pid)
    (project / "go").touch()

    async def main() -> None:
        async with engine(project) as sdk:
            result = await sdk.recover("s")
        assert result is not None
        assert result.completed

    run(main())
    (lost,) = facts(project, "attempt_lost")
    assert lost == {"attempt": 1, "reason": "no engine reattached to it in time", "started": True}
    assert len(agents(project)) == 2


def test_engine_that_died_before_the_agent_was_started_loses_nothing(project: Path) -> None:
    (project / "go").touch()

    async def main() -> None:
        async with engine(project) as sdk:
            await sdk.run(pipeline(shell(PATIENT)), session="s")
            log = run_dir(project) / "events.jsonl"
            lines = log.read_bytes().splitlines(keepends=True)
            intent = next(n for n, line in enumerate(lines) if b'"attempt_start"' in line)
            cut_log(project, lines[: intent + 1])
            (project / "runs").unlink()
            for left in (iteration_dir(project) / "attempt-1").iterdir():
                left.unlink()
            result = await sdk.recover("s")
        assert result is not None
        assert result.completed

    run(main())
    assert facts(project, "attempt_lost") == [
        {"attempt": 1, "reason": "the engine died before the agent was started", "started": False}
    ]
    assert len(agents(project)) == 1
    assert (iteration_dir(project) / "attempt-1" / "claim").read_bytes() == b"", (
        "no late supervisor can start"
    )


def test_three_attempts_lost_in_a_row_ask_a_person(project: Path) -> None:
    async def main() -> None:
        async with engine(project) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(shell(PATIENT)), session="s"))
            for number in (1, 2, 3):
                await soon(lambda number=number: len(agents(project)) == number)  # type: ignore[misc]
                os.kill(supervisor(project, number), signal.SIGKILL)
            result = await going
            assert (result.status, result.reason) == (RunStatus.PAUSED, "attempts_lost")
            assert "3 attempts at iteration 1" in result.requests[0].question
            (project / "go").touch()
            assert (await sdk.resume("s")).completed

    run(main())


def test_cancel_of_an_interrupted_run_ends_the_agent_that_still_works(project: Path) -> None:
    pid = EngineProcess(project, shell(PATIENT)).kill_while_running()

    async def main() -> None:
        async with engine(project) as sdk:
            result = await sdk.cancel("s")
        assert result is not None
        assert result.status is RunStatus.ABORTED

    run(main())
    assert not lives(pid)
    assert_event_sequence(
        ObservedSession(project, "s"),
        [..., "cancel_requested", "attempt_ending", "attempt_cancelled", "session_aborted"],
    )


def test_force_ends_the_agent_of_the_interrupted_run_that_it_archives(project: Path) -> None:
    first = EngineProcess(project, shell(PATIENT)).kill_while_running()

    async def main() -> None:
        async with engine(project) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(shell(PATIENT)), session="s", force=True))
            await soon(lambda: len(agents(project)) == 2)
            assert not lives(first)
            (project / "go").touch()
            assert (await going).completed
            (kept,) = [row for row in sdk.list() if row.archived_from == "s"]
        assert kept.status == "aborted"
        assert types(project, kept.session)[-1] == "session_aborted"

    run(main())
