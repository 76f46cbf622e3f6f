"""Providers that answer although they were cancelled, or only after their time limit."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.blocks import block, inner
from tests.sdk.projects import engine, eventually, node, pipeline, run, types

from agentforge.model import facts as f
from agentforge.model.failure import FailureKind
from agentforge.model.result import Usage
from agentforge.model.status import RunStatus
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, crashes, says
from agentforge.views.results import RunResult

LONG = 3600.0
ANSWERS: dict[str, Act] = {"a result": says("done"), "a failure": crashes()}


def late(act: Act) -> ScriptedProvider:
    return ScriptedProvider([act], seconds=LONG, late=True)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_after_the_time_limit_does_not_count(tmp_path: Path, answer: str) -> None:
    """As of a program, whose result after its time limit doesn't count either."""
    stage = node(timeout=0.05, retry={"max_attempts": 2, "initial_delay": 0})

    async def main() -> tuple[RunResult, list[f.AnyFact]]:
        async with engine(tmp_path, late(ANSWERS[answer])) as sdk:
            result = await sdk.run(pipeline(stage), session="s")
            return result, [event.fact for event in sdk.events("s")]

    result, facts = run(main())
    errors = [fact.kind for fact in facts if isinstance(fact, f.ErrorOccurred)]
    assert set(errors) == {FailureKind.ITERATION_TIMEOUT}
    assert (result.status, result.iterations) == (RunStatus.FAILED, 0)


def test_what_a_late_answer_used_is_counted(tmp_path: Path) -> None:
    spent = says("done", usage=Usage(input_tokens=7))

    async def main() -> int:
        async with engine(tmp_path, late(spent)) as sdk:
            await sdk.run(pipeline(node(timeout=0.05, retry={"max_attempts": 1})), session="s")
            return sdk.status("s").state.spending.input_tokens

    assert run(main()) == 7


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize(("verb", "status"), [("pause", RunStatus.PAUSED), ("cancel", RunStatus.ABORTED)])
def test_a_run_that_is_stopped_at_once_stops_with_the_late_answer_of_its_agent(
    tmp_path: Path, verb: str, status: RunStatus, answer: str
) -> None:
    provider = late(ANSWERS[answer])

    async def main() -> RunResult:
        async with engine(tmp_path, provider) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(node(runs=3)), session="s"))
            await eventually(lambda: provider.concurrent_calls)
            if verb == "pause":
                await sdk.pause("s", "lunch", now=True)
            else:
                await sdk.cancel("s", "enough")
            result = await going
            assert not sdk.runs.log("s").is_held()
            assert sdk.runs.verify("s").is_intact
            return result

    assert run(main()).status is status
    assert provider.concurrent_calls == 0
    assert types(tmp_path).count("attempt_start") == 1


def test_a_resume_after_a_late_answer_continues(tmp_path: Path) -> None:
    provider = late(says("done"))

    async def main() -> RunResult:
        async with engine(tmp_path, provider) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(node(runs=2)), session="s"))
            await eventually(lambda: provider.concurrent_calls)
            await sdk.pause("s", "lunch", now=True)
            await going
        async with engine(tmp_path) as sdk:
            return await sdk.resume("s")

    result = run(main())
    assert (result.completed, result.iterations) == (True, 2)


def test_a_late_answer_in_a_branch_ends_it_as_the_others_do(tmp_path: Path) -> None:
    """A failed branch ends the block; another one answers only then."""
    providers: dict[str, Any] = {
        "claude": ScriptedProvider([crashes()], name="claude"),
        "codex": ScriptedProvider([says("done")], name="codex", seconds=LONG, late=True),
    }
    duel = pipeline(block(["claude", "codex"], inner("draft", retry={"max_attempts": 1})))

    async def main() -> RunResult:
        async with engine(tmp_path) as sdk:
            for name, provider in providers.items():
                await sdk.register_provider(name, provider)
            going = asyncio.create_task(sdk.run(duel, session="s"))
            await eventually(lambda: providers["codex"].concurrent_calls)
            await eventually(lambda: "error" in types(tmp_path))
            await sdk.pause("s", "lunch", now=True)
            return await going

    assert run(main()).status in (RunStatus.PAUSED, RunStatus.FAILED)
    assert providers["codex"].concurrent_calls == 0


def test_an_engine_that_closes_waits_for_a_late_answer(tmp_path: Path) -> None:
    provider = late(says("done"))

    async def main() -> None:
        sdk = engine(tmp_path, provider)
        going = asyncio.create_task(sdk.run(pipeline(node(runs=3)), session="s"))
        await eventually(lambda: provider.concurrent_calls)
        sdk.interrupt(now=True)
        await going
        await sdk.close()

    run(main())
    assert provider.concurrent_calls == 0
    assert provider.lifecycle[-1] == "shutdown"
