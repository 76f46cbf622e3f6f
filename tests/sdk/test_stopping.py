"""Stopping runs: pause and cancel from this and other processes, cancelled tasks, signals, answers."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.sdk.projects import (
    ENVIRON,
    Gate,
    cut_log,
    engine,
    eventually,
    iteration_dir,
    load,
    node,
    pipeline,
    run,
    run_dir,
    types,
)

from agentforge.model.errors import NotPermitted
from agentforge.model.layout import RunLayout
from agentforge.model.status import RunStatus
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.runtime.answers import Answer, give_answer
from agentforge.sdk.signals import stop_on_signals
from agentforge.testing import (
    FakeClock,
    ObservedSession,
    ScriptedProvider,
    assert_event_sequence,
    assert_state_status,
)
from agentforge.testing.scripted_provider import says


@pytest.mark.requirement("FR-068")
def test_pause_lets_the_iteration_finish_and_writes_the_paused_state(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        clock = FakeClock(hold=True)
        async with engine(tmp_path, gate, clock=clock) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(node(runs=2)), session="s"))
            await gate.working.wait()
            await sdk.pause("s", "please review")
            clock.advance(3600)
            await asyncio.sleep(0.02)
            assert not going.done()
            gate.finish.set()
            result = await going
        assert (result.status, result.reason, result.iterations) == (RunStatus.PAUSED, "please review", 1)
        state = load(run_dir(tmp_path) / "state.json")
        assert (state["status"], state["pause_reason"]) == ("paused", "please review")
        assert state["paused_at"] == "2026-01-15T13:00:00Z"
        assert state["iteration_started"] is None
        assert not sdk.runs.log("s").is_held(), "paused sessions don't hold locks"
        assert not (tmp_path / ".claude" / "locks" / "s.lock").exists()
        assert await sdk.recover("s") is None, "recovery never restarts what a person stopped"

    run(main())


def test_pause_now_ends_the_agent_and_no_retry_is_spent(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(node(retry={"max_attempts": 1})), session="s"))
            await gate.working.wait()
            await sdk.pause("s", now=True)
            assert (await going).status is RunStatus.PAUSED
            gate.finish.set()
            assert (await sdk.resume("s")).completed
        assert [record["status"] for record in _attempts(tmp_path)] == ["cancelled", "success"]

    run(main())
    assert_event_sequence(
        ObservedSession(tmp_path, "s"),
        [
            ...,
            "attempt_start",
            "pause_requested",
            "attempt_ending",
            "attempt_cancelled",
            "session_paused",
            "session_resumed",
            "attempt_start",
            "iteration_complete",
            ...,
        ],
    )


def _attempts(project: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (iteration_dir(project) / "attempts.jsonl").read_text().splitlines()]


def test_context_cancellation_triggers_graceful_shutdown(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(node(runs=2)), session="s"))
            await gate.working.wait()
            going.cancel()
            await eventually(lambda: "pause_requested" in types(tmp_path))
            assert not going.done(), "the agent may finish its iteration"
            gate.finish.set()
            with pytest.raises(asyncio.CancelledError):
                await going
            assert sdk.status("s").status == "paused"
            assert sdk.status("s").state.pause_reason == "cancelled_by_caller"
            assert sdk.status("s").summary.iterations == 1
            assert not sdk.runs.log("s").is_held()
            assert (await sdk.resume("s")).completed

    run(main())


def test_agent_still_running_after_the_stop_grace_is_ended(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        clock = FakeClock(hold=True)
        async with engine(tmp_path, gate, clock=clock, stop_grace=30) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            assert sdk.interrupt()
            await eventually(lambda: clock.waits)
            clock.advance(29)
            await asyncio.sleep(0.02)
            assert not going.done()
            clock.advance(1)
            result = await going
        assert clock.waits == [30]
        assert (result.status, result.reason) == (RunStatus.PAUSED, "signal_interrupt")
        assert load(run_dir(tmp_path) / "state.json")["iteration_started"] is None

    run(main())
    assert types(tmp_path)[-4:] == ["timer_fired", "attempt_ending", "attempt_cancelled", "session_paused"]


def test_interrupt_without_runs_returns_false(tmp_path: Path) -> None:
    assert not engine(tmp_path).interrupt()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_iteration_waits_for_completion_then_releases_the_lock(
    tmp_path: Path, number: signal.Signals
) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            with stop_on_signals(sdk) as stopped:
                going = asyncio.create_task(sdk.run(pipeline(node(runs=2)), session="s"))
                await gate.working.wait()
                assert (tmp_path / ".claude" / "locks" / "s.lock").exists()
                os.kill(os.getpid(), number)
                await eventually(lambda: stopped.signal)
                assert not going.done()
                gate.finish.set()
                result = await going
            assert stopped.signal is number
        assert (result.status, result.reason, result.iterations) == (
            RunStatus.PAUSED,
            "signal_interrupt",
            1,
        )
        assert not (tmp_path / ".claude" / "locks" / "s.lock").exists()

    run(main())


def test_signal_that_arrives_at_the_end_cancels_nothing_afterwards(tmp_path: Path) -> None:
    """The event loop calls a handler that it has scheduled, even if it was removed since."""

    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([])) as sdk:
            with stop_on_signals(sdk) as stopped:
                signal.raise_signal(signal.SIGTERM)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            assert stopped.signal is None

    run(main())


def test_forced_shutdown_double_sigint_ends_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        gate, clock = Gate(), FakeClock(hold=True)  # On which the second signal is in time.
        told: list[bool] = []
        async with engine(tmp_path, gate, clock=clock) as sdk:
            with stop_on_signals(sdk, told.append):
                going = asyncio.create_task(sdk.run(pipeline(), session="s"))
                await gate.working.wait()
                os.kill(os.getpid(), signal.SIGINT)
                await eventually(lambda: told == [False])
                os.kill(os.getpid(), signal.SIGINT)
                result = await going
        assert told == [False, True]
        assert result.status is RunStatus.PAUSED
        assert "attempt_cancelled" in types(tmp_path)

    run(main())


def test_late_second_signal_does_not_restart_the_stop_grace(tmp_path: Path) -> None:
    async def main() -> None:
        gate, clock = Gate(), FakeClock(hold=True)
        told: list[bool] = []
        async with engine(tmp_path, gate, clock=clock) as sdk:
            with stop_on_signals(sdk, told.append):
                going = asyncio.create_task(sdk.run(pipeline(), session="s"))
                await gate.working.wait()
                os.kill(os.getpid(), signal.SIGINT)
                await eventually(lambda: clock.waits == [30])
                clock.advance(5.2)
                os.kill(os.getpid(), signal.SIGTERM)
                await eventually(lambda: told == [False, False])
                clock.advance(24.8)
                result = await going
        assert clock.waits == [30]
        assert (result.status, result.reason) == (RunStatus.PAUSED, "signal_interrupt")

    run(main())
    assert types(tmp_path).count("pause_requested") == 1


def test_second_signal_in_time_after_a_late_one_stops_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        gate, clock = Gate(), FakeClock(hold=True)
        told: list[bool] = []
        async with engine(tmp_path, gate, clock=clock) as sdk:
            with stop_on_signals(sdk, told.append):
                going = asyncio.create_task(sdk.run(pipeline(), session="s"))
                await gate.working.wait()
                os.kill(os.getpid(), signal.SIGINT)
                await eventually(lambda: clock.waits == [30])
                clock.advance(5.2)
                os.kill(os.getpid(), signal.SIGTERM)
                await eventually(lambda: told == [False, False])
                os.kill(os.getpid(), signal.SIGTERM)
                result = await going
        assert told == [False, False, True]
        assert result.status is RunStatus.PAUSED

    run(main())
    assert types(tmp_path).count("pause_requested") == 2


# -- cancel


@pytest.mark.requirement("FR-070", "FR-071")
def test_cancel_ends_a_run_that_this_engine_drives_for_good(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            cancelled = await sdk.cancel("s", "changed my mind")
            result = await going
        assert (result.status, result.reason) == (RunStatus.ABORTED, "changed my mind")
        assert cancelled is not None
        assert cancelled.status is RunStatus.ABORTED

    run(main())
    assert_state_status(ObservedSession(tmp_path, "s"), "aborted")
    assert types(tmp_path)[-1] == "session_aborted"


def test_cancel_of_a_paused_run_happens_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            await sdk.pause("s", now=True)
            await going
            result = await sdk.cancel("s")
        assert result is not None
        assert result.status is RunStatus.ABORTED
        assert not list((run_dir(tmp_path) / "control").iterdir())

    run(main())


def test_cancel_of_an_interrupted_run_is_finished_without_its_driver(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("x")])
        async with engine(tmp_path, provider) as sdk:
            await sdk.run(pipeline(node(runs=3)), session="s")
            log = run_dir(tmp_path) / "events.jsonl"
            cut_log(tmp_path, log.read_bytes().splitlines(keepends=True)[:7])
            result = await sdk.cancel("s")
        assert result is not None
        assert result.status is RunStatus.ABORTED
        assert len(provider.calls) == 3, "no new work began"

    run(main())


def test_control_that_came_too_late_is_dropped(tmp_path: Path) -> None:
    """The run ends between the question whether it can be cancelled and the control."""

    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            gate.finish.set()
            cancelling = asyncio.create_task(sdk.cancel("s"))
            result, _ = await asyncio.gather(going, cancelling)
        assert types(tmp_path)[-1] in ("session_complete", "session_aborted")
        assert result.status in (RunStatus.COMPLETED, RunStatus.ABORTED)
        assert not list((run_dir(tmp_path) / "control").iterdir())

    run(main())


# -- from another process

SENDER = """
import sys
from agentforge.sdk.sync import SyncEngine
with SyncEngine(sys.argv[1], environ={"XDG_STATE_HOME": sys.argv[3]}) as engine:
    if sys.argv[2] == "pause":
        engine.pause("s", "asked from elsewhere")
    else:
        print(engine.cancel("s", "asked from elsewhere"))
"""


@pytest.mark.parametrize("action", ["pause", "cancel"])
def test_pause_and_cancel_via_files_from_another_process(tmp_path: Path, action: str) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(node(runs=2)), session="s"))
            await gate.working.wait()
            sender = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                SENDER,
                str(tmp_path),
                action,
                ENVIRON["XDG_STATE_HOME"],
                stdout=subprocess.PIPE,
            )
            if action == "pause":
                await eventually(lambda: "pause_requested" in types(tmp_path))
                gate.finish.set()
            result = await going
            await sender.communicate()
            assert sender.returncode == 0
        assert result.reason == "asked from elsewhere"
        assert result.status is (RunStatus.PAUSED if action == "pause" else RunStatus.ABORTED)
        assert not list((run_dir(tmp_path) / "control").iterdir()), "each control is taken in once"

    run(main())


def test_pending_pause_does_not_outlive_a_resume(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.run(pipeline(node(runs=3)), session="s")
            log = run_dir(tmp_path) / "events.jsonl"
            cut_log(tmp_path, log.read_bytes().splitlines(keepends=True)[:7])
            await sdk.pause("s")
            assert (await sdk.resume("s")).completed

    run(main())
    assert "pause_requested" not in types(tmp_path)


def test_pause_of_an_interrupted_run_holds_back_recovery(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.run(pipeline(node(runs=3)), session="s")
            log = run_dir(tmp_path) / "events.jsonl"
            cut_log(tmp_path, log.read_bytes().splitlines(keepends=True)[:7])
            await sdk.pause("s", "not now")
            result = await sdk.recover("s")
            assert result is not None
            assert (result.status, result.reason) == (RunStatus.PAUSED, "not now")
            assert await sdk.recover("s") is None

    run(main())


def test_invalid_file_in_control_is_moved_aside(tmp_path: Path) -> None:
    folder = run_dir(tmp_path) / "control"

    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            folder.mkdir()
            (folder / "0.json").write_text("not a control")
            (folder / "readme.txt").write_text("hello")
            gate.finish.set()
            assert (await going).completed

    run(main())
    assert sorted(path.name for path in folder.iterdir()) == ["0.json.refused", "readme.txt"]


# -- questions and answers


async def _asked(project: Path) -> str:
    """A run that asks because its runtime limit is used up after one iteration; the request's id."""
    clock = FakeClock(hold=True)

    def slow(request: ExecuteRequest) -> ExecuteResult:
        clock.advance(20)
        return says("x")(request)

    limited = pipeline(node(runs=2), guardrails={"max_runtime_seconds": 15})
    async with engine(project, ScriptedProvider([slow]), clock=clock) as sdk:
        result = await sdk.run(limited, session="s")
    assert (result.status, result.reason) == (RunStatus.PAUSED, "runtime_limit")
    (request,) = result.requests
    assert request.question == "the runtime limit of 15 s is used up. Extend it by the same amount?"
    return request.id


def test_question_is_answered_by_a_resume_and_the_answer_is_kept(tmp_path: Path) -> None:
    async def main() -> None:
        request = await _asked(tmp_path)
        assert request.startswith("runtime_limit-")
        async with engine(tmp_path) as sdk:
            result = await sdk.resume("s", by="anna")
        assert result.completed
        kept = load(run_dir(tmp_path) / "answers" / f"{request}.json")
        assert (kept["request"], kept["answer"], kept["by"]) == (request, "resume", "anna")

    run(main())


def test_resume_of_a_run_whose_question_was_answered_with_cancel_cancels(tmp_path: Path) -> None:
    async def main() -> None:
        request = await _asked(tmp_path)
        async with engine(tmp_path) as sdk:
            run_id = sdk.status("s").state.run_id
            given = Answer(request, "cancel", "anna", run_id, datetime.now(UTC))
            give_answer(RunLayout.of(str(tmp_path), "s"), given)
            result = await sdk.resume("s", by="ben")
        assert (result.status, result.reason) == (RunStatus.ABORTED, "answered by anna")

    run(main())


def test_agent_of_a_run_may_not_resume_it(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            await sdk.pause("s", now=True)
            await going
            run_id = sdk.status("s").state.run_id
        environ = {**ENVIRON, "AGENTFORGE_ATTEMPT": f"{run_id}/0/1/1/1"}
        async with engine(tmp_path, environ=environ) as agents:
            with pytest.raises(NotPermitted, match="must not resume it"):
                await agents.resume("s")

    run(main())
