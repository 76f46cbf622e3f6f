"""Quotas and rate limits in real runs: waited for over restarts, or handed to the next of the chain."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from agentforge.cli.commands.status import table
from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.state import Unavailable
from agentforge.model.status import TaskStatus
from agentforge.ports.provider import ExecuteRequest, ExecuteResult, Provider
from agentforge.sdk.engine import Engine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import Act, fails, says

from .projects import ENVIRON, eventually, node, pipeline, run

NOON = FakeClock().now()
QUOTA = Failure(FailureKind.PROVIDER_QUOTA, "usage limit reached", resets_at=NOON + timedelta(hours=5))
SLOW_DOWN = Failure(FailureKind.PROVIDER_RATE_LIMITED, "slow down")
NO_LOGIN = Failure(FailureKind.PROVIDER_AUTH, "not logged in")


def engine(project: Path, clock: FakeClock, **providers: Provider) -> Engine:
    return Engine(project, providers=providers, environ=ENVIRON, clock=clock)


def cast(**scripts: list[Act]) -> Mapping[str, ScriptedProvider]:
    return {name: ScriptedProvider(script, name=name) for name, script in scripts.items()}


def kinds(engine: Engine) -> list[str]:
    return [event.fact.TYPE for event in engine.events("s")]


def test_a_quota_is_waited_for_until_it_resets(tmp_path: Path) -> None:
    clock, providers = FakeClock(), cast(one=[fails(QUOTA), says("done")])

    async def main() -> None:
        async with engine(tmp_path, clock, **providers) as made:
            result = await made.run(pipeline(node(provider="one")), session="s")
            assert result.status == "completed"
            assert clock.waits == [5 * 3600.0]
            assert "limit_met" in kinds(made)
            assert "retry_scheduled" not in kinds(made)

    run(main())


def test_a_wait_is_a_recorded_time_that_others_can_see(tmp_path: Path) -> None:
    clock, providers = FakeClock(hold=True), cast(one=[fails(QUOTA), says("done")])

    async def main() -> None:
        async with engine(tmp_path, clock, **providers) as made:
            running = asyncio.create_task(made.run(pipeline(node(provider="one")), session="s"))
            await eventually(lambda: clock.waits and "limit_met" in kinds(made))
            attempt = made.status("s").state.attempt
            assert attempt is not None
            assert (attempt.status, attempt.due_at) == (TaskStatus.WAITING, QUOTA.resets_at)
            (row,) = made.list()
            assert row.status == "running"
            assert table([row], NOON, "agentforge")[-1].endswith(
                " waiting: plan: one, for another 5h 00m: usage limit reached"
            )
            clock.advance(5 * 3600)
            assert (await running).status == "completed"

    run(main())


def test_the_next_provider_takes_over_in_the_same_workspace(tmp_path: Path) -> None:
    def begins(request: ExecuteRequest) -> ExecuteResult:
        (Path(request.workdir) / "half.txt").write_text("half done")
        return ExecuteResult(failure=QUOTA)

    def finishes(request: ExecuteRequest) -> ExecuteResult:
        assert (Path(request.workdir) / "half.txt").read_text() == "half done"
        return says("finished")(request)

    providers = cast(one=[begins], two=[finishes])

    async def main() -> None:
        clock = FakeClock()
        async with engine(tmp_path, clock, **providers) as made:
            chain = ["one", {"type": "two", "model": "big", "effort": "high"}]
            result = await made.run(pipeline(node(provider=chain, runs=2)), session="s")
            assert result.status == "completed"
            assert clock.waits == []

    run(main())
    # The second iteration goes straight to the one that can work.
    assert len(providers["one"].calls) == 1
    assert [(call.model, call.config) for call in providers["two"].calls] == [("big", {"effort": "high"})] * 2


def test_a_chain_at_its_limits_waits_for_the_first_that_ends(tmp_path: Path) -> None:
    sooner = Failure(FailureKind.PROVIDER_QUOTA, "also used up", resets_at=NOON + timedelta(hours=1))
    clock, providers = FakeClock(), cast(one=[fails(QUOTA)], two=[fails(sooner), says("done")])

    async def main() -> None:
        async with engine(tmp_path, clock, **providers) as made:
            result = await made.run(pipeline(node(provider=["one", "two"])), session="s")
            assert result.status == "completed"
            assert clock.waits == [3600.0]

    run(main())


def test_a_provider_that_never_initializes_falls_back_to_the_next(tmp_path: Path) -> None:
    broken = ScriptedProvider([says("never")], name="one", unusable="no such program")
    two = ScriptedProvider([says("done")], name="two")

    async def main() -> None:
        async with engine(tmp_path, FakeClock(), one=broken, two=two) as made:
            result = await made.run(pipeline(node(provider=["one", "two"])), session="s")
            assert result.status == "completed"
            (changed,) = [e.fact for e in made.events("s") if isinstance(e.fact, f.ProviderChanged)]
            assert (changed.provider, changed.to) == ("one", "two")
            assert "no such program" in changed.message

    run(main())
    assert broken.calls == []


def test_a_provider_without_a_login_rests_until_a_person_resumes(tmp_path: Path) -> None:
    providers = cast(
        one=[fails(NO_LOGIN), says("logged in")],
        two=[fails(Failure(FailureKind.RESULT_INVALID, "nonsense"))],
    )

    async def main() -> None:
        async with engine(tmp_path, FakeClock(), **providers) as made:
            result = await made.run(pipeline(node(provider=["one", "two"])), session="s")
            assert result.status == "failed"
            at = made.status("s").state.node
            assert at is not None
            assert at.unavailable == (Unavailable(0, None, "not logged in"),)
            result = await made.resume("s")
            assert result.status == "completed"

    run(main())


def test_a_limit_that_lasts_longer_than_allowed_asks_a_person(tmp_path: Path) -> None:
    providers = cast(one=[fails(QUOTA), says("done")])

    async def main() -> None:
        async with engine(tmp_path, FakeClock(), **providers) as made:
            waits = node(provider="one", on_limit={"do": "wait", "max_wait": 60})
            result = await made.run(pipeline(waits), session="s")
            assert (result.status, result.reason) == ("paused", "provider_limit")
            (request,) = made.status("s").state.requests
            assert "one is at its limit until 2026-01-15 17:00 UTC" in request.question
            assert (await made.resume("s")).status == "completed"

    run(main())


@pytest.mark.parametrize("policy", ["fail", {"do": "fail"}])
def test_a_pipeline_may_fail_at_a_limit(tmp_path: Path, policy: object) -> None:
    providers = cast(one=[fails(SLOW_DOWN)])

    async def main() -> None:
        async with engine(tmp_path, FakeClock(), **providers) as made:
            result = await made.run(pipeline(node(provider="one", on_limit=policy)), session="s")
            assert result.status == "failed"
            failure = made.status("s").state.failure
            assert failure is not None
            assert failure.kind is FailureKind.PROVIDER_RATE_LIMITED

    run(main())


# -- over the death of the engine

WAITING_SCRIPT = """
import asyncio, json, sys
from datetime import datetime
from agentforge.model.failure import Failure, FailureKind
from agentforge.sdk.engine import Engine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import fails

resets = datetime.fromisoformat(sys.argv[2])
used_up = Failure(FailureKind.PROVIDER_QUOTA, "used up", resets_at=resets)
async def main():
    providers = {"one": ScriptedProvider([fails(used_up)], name="one")}
    environ, clock = json.loads(sys.argv[3]), FakeClock(hold=True)
    async with Engine(sys.argv[1], providers=providers, environ=environ, clock=clock) as engine:
        plan = {"id": "plan", "prompt": "x", "provider": "one"}
        await engine.run({"name": "p", "nodes": [plan]}, session="s")
asyncio.run(main())
"""


@pytest.mark.crash
def test_a_wait_for_a_quota_survives_the_death_of_the_engine(tmp_path: Path) -> None:
    resets = NOON + timedelta(hours=5)
    arguments = (str(tmp_path), resets.isoformat(), json.dumps(ENVIRON))
    dying = subprocess.Popen([sys.executable, "-c", WAITING_SCRIPT, *arguments])
    again = ScriptedProvider([says("done")], name="one")
    clock = FakeClock()

    async def main() -> None:
        async with engine(tmp_path, clock, one=again) as made:
            await eventually(lambda: "limit_met" in log.read_text() if log.exists() else False)
            os.kill(dying.pid, signal.SIGKILL)
            dying.wait()
            result = await made.recover("s")
            assert result is not None
            assert result.status == "completed"
            assert kinds(made).count("limit_met") == 1
            (second,) = [e for e in made.events("s") if isinstance(e.fact, f.AttemptStarted)][1:]
            assert second.at >= resets
            assert clock.waits == [5 * 3600.0]

    log = tmp_path / ".claude" / "pipeline-runs" / "s" / "events.jsonl"
    try:
        run(main())
    finally:
        if dying.poll() is None:
            dying.kill()
            dying.wait()
    assert len(again.calls) == 1
