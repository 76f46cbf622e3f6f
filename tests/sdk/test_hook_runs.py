"""Hooks of a run that call services and scripts: retries, failures, timeouts, context, and crashes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.runtime.attempt_run import eventually, lives
from tests.sdk.hooked import hook, hook_facts, hook_types, run_hooked
from tests.sdk.projects import ENVIRON, engine, node, run
from tests.webhook_server import Reply, serving

from agentforge.model import facts as f
from agentforge.model.errors import RunActive
from agentforge.model.hook import Hook
from agentforge.sdk.engine import Engine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import says
from agentforge.views.results import RunResult

TRY = ["hook_start", "effect_intended", "hook_failed", "effect_done"]
ANSWERED = ["hook_start", "effect_intended", "hook_complete", "effect_done"]


def go(project: Path, *hooks: Hook, **options: Any) -> tuple[RunResult, list[f.AnyFact]]:
    async def main() -> tuple[RunResult, list[f.AnyFact]]:
        async with engine(project, clock=FakeClock()) as sdk:
            return await run_hooked(sdk, *hooks, **options), hook_facts(sdk)

    return run(main())


def test_a_webhook_that_fails_once_is_sent_again_with_the_same_key(tmp_path: Path) -> None:
    with serving(Reply(500), Reply(body="more tests")) as server:
        result, facts = go(tmp_path, hook("iteration_end", "webhook", url=server.url))
    assert result.completed
    assert [fact.TYPE for fact in facts] == [*TRY, "hook_retry", *ANSWERED]
    assert len(server.keys) == 2
    assert len(set(server.keys)) == 1
    assert [request.payload["attempt"] for request in server.received] == [1, 2]


def test_a_webhook_that_always_fails_pauses_the_run_until_a_person_decides(tmp_path: Path) -> None:
    with serving(Reply(500, "down")) as server:

        async def main() -> None:
            clock = FakeClock()
            async with engine(tmp_path, clock=clock) as sdk:
                result = await run_hooked(sdk, hook("iteration_end", "webhook", url=server.url))
                assert (result.status, result.reason) == ("paused", "hook_webhook_failed")
                assert clock.waits == [1.0, 2.0]
                (request,) = result.requests
                assert request.options == ("continue", "retry", "abort")
                assert "answered 500: down" in request.question
                assert len(server.keys) == 3
                again = await sdk.answer("s", "retry")
                assert again is not None
                assert (again.status, len(server.keys)) == ("paused", 6)
                done = await sdk.answer("s", "continue")
                assert done is not None
                assert done.completed

        run(main())
    assert len(set(server.keys)) == 1


@pytest.mark.parametrize(("policy", "status"), [("continue", "completed"), ("fail", "failed")])
def test_on_failure_decides_what_follows_a_failed_webhook(tmp_path: Path, policy: str, status: str) -> None:
    with serving(Reply(400)) as server:
        called = hook("iteration_end", "webhook", url=server.url, on_failure=policy)
        result, _ = go(tmp_path, called)
    assert result.status == status
    assert len(server.received) == 1


@pytest.mark.parametrize(("policy", "status"), [("continue", "completed"), ("pause", "paused")])
def test_on_timeout_decides_what_follows_a_hanging_webhook(tmp_path: Path, policy: str, status: str) -> None:
    with serving(Reply(hangs=True)) as server:
        called = hook("iteration_end", "webhook", url=server.url, timeout=0.2, on_timeout=policy)
        result, facts = go(tmp_path, called)
    assert result.status == status
    assert any(isinstance(fact, f.HookTimedOut) for fact in facts)


def test_the_answer_is_context_of_the_following_iterations(tmp_path: Path) -> None:
    seen: list[str] = []

    class Remembers(ScriptedProvider):
        async def execute(self, request: Any) -> Any:
            seen.append(request.prompt)
            return await super().execute(request)

    async def main() -> None:
        async with engine(tmp_path, Remembers([says("one"), says("two"), says("three")])) as sdk:
            with serving(Reply(body="look at a.py"), Reply(204)) as server:
                called = hook("iteration_end", "webhook", url=server.url)
                nodes = (node(runs=3, prompt="so far: ${CONTEXT}"),)
                assert (await run_hooked(sdk, called, nodes=nodes)).completed
            summaries = [request.payload["summary"] for request in server.received]
            assert summaries == ["one", "two", "three"]
            assert server.received[1].payload["context"] == "look at a.py"

    run(main())
    assert seen == ["so far: ", "so far: look at a.py", "so far: look at a.py"]


def test_a_script_that_fails_pauses_the_run(tmp_path: Path) -> None:
    result, facts = go(tmp_path, hook("stage_start", "script", script="echo broken >&2; exit 3"))
    assert (result.status, result.reason) == ("paused", "hook_script_failed")
    assert "exit status 3: broken" in result.requests[0].question
    assert [fact.TYPE for fact in facts] == ["hook_start", "hook_failed"]


def test_hooks_of_all_points_run_in_order(tmp_path: Path) -> None:
    points = ("session_start", "stage_start", "iteration_start", "iteration_end", "stage_end", "session_end")
    script = 'echo "$AGENTFORGE_EVENT $AGENT_PIPELINES_STAGE $AGENT_PIPELINES_ITERATION" >> calls'
    result, _ = go(tmp_path, *(hook(point, "script", script=script) for point in points))
    assert result.completed
    assert (tmp_path / "calls").read_text().splitlines() == [
        "session_start  0",
        "stage_start plan 0",
        "iteration_start plan 1",
        "iteration_end plan 1",
        "stage_end plan 1",
        "session_end  0",
    ]


# -- an engine that is killed

ENGINE = """
import asyncio, json, sys
import msgspec
from agentforge.model.hook import Hook
from tests.sdk.hooked import run_hooked
from tests.sdk.projects import engine

async def main():
    environ = json.loads(sys.argv[3])
    async with engine(sys.argv[1], environ=environ) as sdk:
        await run_hooked(sdk, msgspec.json.decode(sys.argv[2], type=Hook))

asyncio.run(main())
"""


class EngineToKill:
    def __init__(self, project: Path, called: Hook) -> None:
        arguments = [str(project), msgspec.json.encode(called).decode(), json.dumps(ENVIRON)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", ENGINE, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def kill_when(self, reached: Any) -> None:
        eventually(reached)
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=60)


async def recovered(sdk: Engine) -> RunResult:
    result = await sdk.recover("s")
    assert result is not None
    return result


def test_a_webhook_without_an_answer_is_repeated_with_its_key_after_a_crash(tmp_path: Path) -> None:
    with serving(Reply(hangs=True), Reply(body="fine")) as server:
        called = hook("iteration_end", "webhook", url=server.url)
        EngineToKill(tmp_path, called).kill_when(server.arrived.is_set)

        async def main() -> None:
            async with engine(tmp_path) as sdk:
                assert (await recovered(sdk)).completed
                lost = ["hook_start", "effect_intended", "hook_lost", "effect_reconciled"]
                assert hook_types(sdk) == [*lost, *ANSWERED]

        run(main())
    assert len(server.keys) == 2
    assert len(set(server.keys)) == 1


def test_a_webhook_without_an_answer_asks_if_it_must_not_be_repeated(tmp_path: Path) -> None:
    with serving(Reply(hangs=True), Reply(body="fine")) as server:
        called = hook("iteration_end", "webhook", url=server.url, on_lost="pause")
        EngineToKill(tmp_path, called).kill_when(server.arrived.is_set)

        async def main() -> None:
            async with engine(tmp_path) as sdk:
                result = await recovered(sdk)
                assert (result.status, result.reason) == ("paused", "hook_lost")
                assert len(server.keys) == 1
                done = await sdk.answer("s", "continue")
                assert done is not None
                assert done.completed

        run(main())
    assert len(server.keys) == 1


def is_written(file: Path) -> bool:
    """Whether a line is in it: the file is there a moment earlier."""
    return file.exists() and file.read_text().endswith("\n")


def test_a_script_is_reattached_to_after_a_crash(tmp_path: Path) -> None:
    script = "echo $$ >> runs; until [ -e go ]; do sleep 0.01; done; echo done"
    EngineToKill(tmp_path, hook("stage_end", "script", script=script)).kill_when(
        lambda: is_written(tmp_path / "runs")
    )
    (pid,) = map(int, (tmp_path / "runs").read_text().split())
    assert lives(pid)

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            going = asyncio.create_task(recovered(sdk))
            (tmp_path / "go").touch()
            assert (await going).completed
            assert hook_types(sdk) == ["hook_start", "hook_complete"]

    run(main())
    assert len((tmp_path / "runs").read_text().split()) == 1


def test_cancelling_a_run_whose_engine_was_killed_ends_its_script(tmp_path: Path) -> None:
    script = "(setsid sleep 60 & echo $! > child); echo $$ >> runs; sleep 60"
    EngineToKill(tmp_path, hook("stage_end", "script", script=script)).kill_when(
        lambda: is_written(tmp_path / "runs")
    )
    pids = [int((tmp_path / name).read_text()) for name in ("runs", "child")]
    assert all(map(lives, pids))

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            with pytest.raises(RunActive, match="still running, without an engine"):
                sdk.remove("s")
            result = await sdk.cancel("s")
            assert result is not None
            assert result.status == "aborted"
            assert hook_types(sdk) == ["hook_start", "hook_ending", "hook_lost"]

    run(main())
    assert not any(map(lives, pids))
