"""Notes for a running run, and stages that are started over."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.sdk import blocks
from tests.sdk.approvals import awaited, events, started
from tests.sdk.projects import Gate, engine, eventually, node, pipeline, run, run_dir, types

from agentforge.model.errors import IllegalMove, InvalidRequest
from agentforge.model.plan import Approval
from agentforge.model.status import RunStatus
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.runtime.controls import Control, send_control
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says

TWICE = pipeline(node(runs=2, prompt="<${CONTEXT}>"))


class Turns(Gate):
    """Works once it is told to; `working` is set for each call."""

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        self.working.set()
        await self.finish.wait()
        self.finish.clear()
        self.working.clear()
        result: ExecuteResult = await self.inner.execute(request)
        return result


# -- steering


def test_note_reaches_the_next_iteration_of_a_running_run(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Turns()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(TWICE, session="s"))
            await gate.working.wait()
            await sdk.steer("s", "mind the gap", by="anna")
            await eventually(lambda: "note_added" in types(tmp_path))
            gate.finish.set()
            await eventually(lambda: len(gate.inner.calls) == 1 and gate.working.is_set())
            gate.finish.set()
            assert (await going).completed
        first, second = (call.prompt for call in gate.inner.calls)
        assert ("mind the gap" in first, "<mind the gap>" in second) == (False, True)

    run(main())
    (noted,) = events(tmp_path, "note_added")
    assert (noted.fact.text, noted.fact.by) == ("mind the gap", "anna")
    assert not list((run_dir(tmp_path) / "control").iterdir())


def test_note_for_a_run_that_waits_is_taken_when_it_continues(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("done")])
        async with engine(tmp_path, provider) as sdk:
            await awaited(sdk, what=pipeline(node(prompt="<${CONTEXT}>")))
            await sdk.steer("s", "shorter")
            assert "note_added" not in types(tmp_path)
            await sdk.answer("s", "reject", text="too long")
            assert "<shorter>" in provider.calls[1].prompt

    run(main())


def test_oldest_notes_are_dropped_with_a_warning_and_stay_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
            for letter in "abc":
                await sdk.steer("s", letter * 15_000)
            await sdk.answer("s", "approve")
            assert [note.text[0] for note in sdk.status("s").state.notes] == ["b", "c"]

    with caplog.at_level(logging.WARNING, "agentforge.run"):
        run(main())
    assert caplog.text.count("the oldest notes no longer fit into the context (32768 bytes in total)") == 1
    assert [event.fact.text[0] for event in events(tmp_path, "note_added")] == ["a", "b", "c"]


@pytest.mark.parametrize(("text", "why"), [(" \n", "is empty"), ("x" * 32_769, "at most 32768 bytes")])
def test_note_that_is_empty_or_too_long_is_refused(tmp_path: Path, text: str, why: str) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
            with pytest.raises(InvalidRequest, match=f"the text .*{why}"):
                await sdk.steer("s", text)
        assert not (run_dir(tmp_path) / "control").exists()

    run(main())


def test_run_that_is_over_is_neither_steered_nor_restarted(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.run(pipeline(), session="s")
            with pytest.raises(IllegalMove, match="is completed: it has no further iterations"):
                await sdk.steer("s", "hello")
            with pytest.raises(IllegalMove, match="is completed; no stage can be restarted"):
                await sdk.restart_stage("s")

    run(main())


# -- restarts


def test_running_stage_is_restarted_as_its_next_visit(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            gate.working.clear()
            assert await sdk.restart_stage("s", "wrong branch", by="anna") is None
            await gate.working.wait()
            gate.finish.set()
            assert (await going).completed

    run(main())
    (asked,), (left,) = events(tmp_path, "restart_requested"), events(tmp_path, "node_restart")
    assert (asked.fact.reason, asked.fact.by) == ("wrong branch", "anna")
    assert (left.fact.cause, left.fact.reason) == ("requested", "wrong branch")
    assert [event.fact.run for event in events(tmp_path, "node_start")] == [1, 2]


def test_running_stage_can_be_restarted_again_and_again(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            for reason in ("first", "second", "third"):
                await gate.working.wait()
                gate.working.clear()
                assert await sdk.restart_stage("s", reason) is None
            await gate.working.wait()
            gate.finish.set()
            assert (await going).completed

    run(main())
    assert [event.fact.reason for event in events(tmp_path, "node_restart")] == ["first", "second", "third"]
    assert [event.fact.run for event in events(tmp_path, "node_start")] == [1, 2, 3, 4]


@pytest.mark.parametrize("verb", ["restart_stage", "resume"])
def test_stage_that_waits_is_restarted_and_its_request_withdrawn(tmp_path: Path, verb: str) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("done")])
        async with engine(tmp_path, provider) as sdk:
            first = await awaited(sdk)
            again = sdk.restart_stage("s") if verb == "restart_stage" else sdk.resume("s", restart_stage=True)
            result = await again
            assert result is not None
            (second,) = result.requests
            assert (second.kind, second.id != first.id) == ("approval", True)
            assert len(provider.calls) == 2
            await sdk.answer("s", "approve")

    run(main())
    assert [event.fact.effect for event in events(tmp_path, "request_resolved")] == ["withdrawn", "approved"]


def test_failed_stage_is_restarted(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([crashes(), says("done")])
        async with engine(tmp_path, provider) as sdk:
            failed = await sdk.run(pipeline(node(retry={"max_attempts": 1})), session="s")
            assert failed.status is RunStatus.FAILED
            result = await sdk.restart_stage("s")
        assert result is not None
        assert result.completed

    run(main())
    assert [event.fact.run for event in events(tmp_path, "node_start")] == [1, 2]


def test_branches_are_restarted_by_their_provider(tmp_path: Path) -> None:
    async def main() -> None:
        providers = blocks.players()
        async with blocks.engine(tmp_path, providers) as sdk:
            what = pipeline(blocks.block(["claude", "codex"], blocks.inner()))
            await started(sdk, Approval(), what)
            with pytest.raises(IllegalMove, match="branches are restarted separately") as error:
                await sdk.restart_stage("s")
            assert error.value.hint == "name one with --provider: claude, codex"
            with pytest.raises(IllegalMove, match="provider 'gemini' is not in a stage"):
                await sdk.restart_stage("s", provider="gemini")
            result = await sdk.restart_stage("s", provider="codex")
            assert result is not None
            assert len(result.requests) == 2
        assert [len(provider.calls) for provider in providers.values()] == [1, 2]

    run(main())


@pytest.mark.parametrize(
    ("visit", "changes", "why"),
    [
        ("0/9", {}, "its stage has already ended"),
        ("0/1", {"provider": "codex"}, "can't restart a stage: provider 'codex' is not in a stage"),
    ],
)
def test_restart_that_comes_too_late_is_refused_and_reported(
    tmp_path: Path, visit: str, changes: dict[str, Any], why: str
) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
            send_control(sdk.runs.layout("s"), Control("restart", "late", visit=visit, id="1", **changes))
            result = await sdk.answer("s", "approve")
            assert result is not None
            assert result.completed
            (refused,) = sdk.status("s").state.refused
            assert (refused.name, refused.moved_to) == ("control/1.json", "1.json.refused")
            assert why in refused.reason

    run(main())
    assert "restart_requested" not in types(tmp_path)


def test_restart_that_another_engine_left_is_done_when_the_run_continues(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("done")])
        async with engine(tmp_path, provider) as sdk:
            await awaited(sdk)
            send_control(sdk.runs.layout("s"), Control("restart", "again", visit="0/1", id="1"))
            result = await sdk.answer("s", "reject", text="no")
            assert result is not None
        assert len(provider.calls) == 2

    run(main())
    assert types(tmp_path).count("restart_requested") == 1
