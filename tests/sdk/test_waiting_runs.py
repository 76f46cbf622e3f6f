"""Runs that wait for people: who continues them, and when a default is the answer."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.sdk import blocks
from tests.sdk.approvals import awaited, events, started
from tests.sdk.projects import engine, load, node, pipeline, run, run_dir, types

from agentforge import Overview, RunInfo
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import Approval
from agentforge.model.status import RunStatus
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says

HOUR = 3600.0
TIMED = Approval(timeout=HOUR, on_timeout="approve")


# -- resume


def test_resume_of_a_run_that_waits_for_an_approval_is_refused_with_the_command_to_use(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
            before = (run_dir(tmp_path) / "events.jsonl").read_bytes()
            for refused in (sdk.resume("s"), sdk.resume("s", "a note")):
                with pytest.raises(IllegalMove, match="'s' waits for an answer: Approve the result") as error:
                    await refused
                assert error.value.hint.startswith("answer it instead: `agentforge ")
            with pytest.raises(IllegalMove, match="waits for an answer"):
                sdk.validate_resume("s")
            assert (run_dir(tmp_path) / "events.jsonl").read_bytes() == before
            sdk.validate_resume("s", approve=True)
            sdk.validate_resume("s", restart_stage=True)
            assert (await sdk.resume("s", approve=True)).completed

    run(main())


def test_resume_continues_a_run_with_one_of_two_approvals_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with blocks.engine(tmp_path) as sdk:
            result = await started(sdk, what=pipeline(blocks.block(["claude", "codex"], blocks.inner())))
            first, second = result.requests
            await sdk.answer("s", "approve", request=first.id, drive=False)
            result = await sdk.resume("s")
            assert [request.id for request in result.requests] == [second.id]
            with pytest.raises(IllegalMove, match="waits for an answer"):
                await sdk.resume("s")

    run(main())


def test_resume_answers_an_escalation_and_leaves_the_approval_of_another_branch_open(tmp_path: Path) -> None:
    async def main() -> None:
        script = {"claude": [says("done")], "codex": [crashes(), says("done")]}
        providers = {name: ScriptedProvider(acts, name=name) for name, acts in script.items()}
        async with blocks.engine(tmp_path, providers) as sdk:
            what = pipeline(blocks.block(["claude", "codex"], blocks.inner(semantics="at_most_once")))
            result = await started(sdk, what=what)
            assert {request.kind for request in result.requests} == {"approval", "escalation"}
            result = await sdk.resume("s")
            assert [request.kind for request in result.requests] == ["approval", "approval"]

    run(main())


# -- timers


def test_run_that_waits_releases_the_lease_although_a_default_is_due_later(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock(hold=True)
        async with engine(tmp_path, clock=clock) as sdk:
            request = await awaited(sdk, TIMED)
            due = request.opened_at + timedelta(hours=1)
            assert request.due_at == due
            info = sdk.status("s")
            assert (info.status, info.state.wake_at, info.driver_pid) == ("awaiting_approval", due, None)
            assert load(run_dir(tmp_path) / "state.json")["wake_at"] == f"{due:%Y-%m-%dT%H:%M:%SZ}"
            assert await sdk.recover("s") is None
            clock.advance(HOUR - 1)
            assert await sdk.recover("s") is None
            clock.advance(1)
            result = await sdk.recover("s")
        assert result is not None
        assert result.completed

    run(main())
    assert types(tmp_path).count("timer_fired") == 1
    assert events(tmp_path, "request_answered")[0].fact.by == "default"


@pytest.mark.parametrize("verb", ["resume", "answer"])
def test_opening_the_run_fires_the_timers_that_are_due(tmp_path: Path, verb: str) -> None:
    """An answer that is given before the timer fired is in time, however late it is."""

    async def main() -> None:
        clock = FakeClock(hold=True)
        async with engine(tmp_path, clock=clock) as sdk:
            await awaited(sdk, Approval(timeout=HOUR, on_timeout="abort"))
            clock.advance(2 * HOUR)
            result = await (sdk.resume("s") if verb == "resume" else sdk.answer("s", "approve"))
        assert result is not None
        assert result.status is (RunStatus.ABORTED if verb == "resume" else RunStatus.COMPLETED)

    run(main())


def test_list_of_requests_records_defaults_that_are_due_without_continuing_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock(hold=True)
        provider = ScriptedProvider([says("done")])
        async with engine(tmp_path, provider, clock=clock) as sdk:
            await awaited(sdk, TIMED, pipeline(node(), node("next")))
            assert len(sdk.requests()) == 1
            clock.advance(HOUR)
            assert sdk.requests() == []
            assert sdk.requests() == []
            assert types(tmp_path)[-2:] == ["timer_fired", "request_answered"]
            assert sdk.status("s").status == "awaiting_approval"
            assert len(provider.calls) == 1
            result = await sdk.recover("s")
            assert result is not None
            (request,) = result.requests
            assert request.at is not None
            assert request.at.node_path == "1"

    run(main())
    assert types(tmp_path).count("timer_fired") == 1


def test_request_without_a_default_waits_for_ever(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock(hold=True)
        async with engine(tmp_path, clock=clock) as sdk:
            await awaited(sdk, Approval(timeout=HOUR))
            clock.advance(1000 * HOUR)
            assert sdk.status("s").state.wake_at is None
            assert await sdk.recover("s") is None
            assert len(sdk.requests()) == 1

    run(main())


def test_timer_of_a_branch_fires_while_another_branch_works(tmp_path: Path) -> None:
    """The clock moves by the length of each wait."""

    async def main() -> None:
        providers: dict[str, Any] = blocks.players()
        async with blocks.engine(tmp_path, providers, clock=FakeClock()) as sdk:
            stages = blocks.inner(runs=3, delay=2 * HOUR), blocks.inner("rest")
            what = pipeline(blocks.block(["claude", "codex"], *stages))
            result = await started(sdk, TIMED, what)
            while result.status is RunStatus.AWAITING_APPROVAL:
                wake_at = sdk.status("s").state.wake_at
                assert wake_at is not None
                clock: Any = sdk._context.clock
                clock.set(wake_at)
                again = await sdk.recover("s")
                assert again is not None
                result = again
        assert result.completed

    run(main())


# -- answered, and no engine continues


def test_answered_run_without_an_engine_says_so_until_it_is_recovered(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
            overview = Overview(sdk.runs)
            assert not shown(overview).answered
            await sdk.answer("s", "approve", drive=False)
            assert "request_answered" not in types(tmp_path)
            assert (sdk.inspect("s").answered, shown(overview).answered) == (True, True)
            assert sdk.requests("s") == []
            assert "request_answered" in types(tmp_path)
            assert (sdk.inspect("s").answered, shown(overview).answered) == (True, True)
            result = await sdk.recover("s")
            assert result is not None
            assert result.completed
            assert not shown(overview).answered

    def shown(overview: Overview) -> RunInfo:
        info = overview.infos()["s"]
        assert info is not None
        return info

    run(main())
