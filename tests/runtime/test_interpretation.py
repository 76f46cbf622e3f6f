"""The output of an attempt is interpreted off the event loop, with a deadline; session ids are validated."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.sdk.projects import ENVIRON, engine, node, pipeline, run

from agentforge.adapters.providers.command import CommandProvider
from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.layout import RunLayout
from agentforge.model.plan import ProviderChoice
from agentforge.model.result import Usage
from agentforge.ports.provider import Capabilities, ExecuteResult, Exit
from agentforge.runtime.attempt_folder import ExitRecord
from agentforge.runtime.left_files import leave
from agentforge.runtime.supervision import SupervisedExit
from agentforge.runtime.tasks.call import Calls, Finished, ProviderCall
from agentforge.sdk.engine import Engine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import fails, says

WRITES = 'cat >/dev/null; printf \'{"summary": "done"}\' > "$MOCK_RESULT_FILE"'


class Slow(CommandProvider):
    """A program whose output takes as long to interpret as the test wants."""

    def __init__(self) -> None:
        super().__init__(ENVIRON, name="slow", config={"run": WRITES})
        self.began, self.go_on = threading.Event(), threading.Event()

    def interpret(self, exit: Exit) -> ExecuteResult:
        self.began.set()
        self.go_on.wait()
        return super().interpret(exit)


def test_engine_continues_while_output_is_interpreted(tmp_path: Path) -> None:
    slow = Slow()

    async def main() -> str:
        async with Engine(tmp_path, providers={"slow": slow}, environ=ENVIRON) as sdk:
            running = asyncio.create_task(sdk.run(pipeline(node(provider="slow")), session="s"))
            await asyncio.to_thread(slow.began.wait)
            assert not running.done()
            slow.go_on.set()
            return (await running).status

    assert run(main()) == "completed"


class Exited:
    """A supervisor whose agent has ended."""

    async def reattach(self, *_: Any) -> SupervisedExit:
        return SupervisedExit(record=ExitRecord("exited", 0, None, 7))


class Unconfined:
    async def settle(self, *_: Any) -> None:
        """Nothing was confined."""

    def cleanup(self, *_: Any) -> tuple[str, ...]:
        return ()


def test_interpretation_that_takes_too_long_fails_the_attempt(tmp_path: Path) -> None:
    slow, exited = Slow(), Exited()
    place = RunLayout.of(str(tmp_path), "s").iteration("stage-00-a", 1).attempt(1)
    calls = Calls(
        *(lambda _: slow, {}, exited, Unconfined()),  # type: ignore[arg-type]
        run_dir=str(tmp_path),
        refuse=leave,
        interpret_seconds=0.01,
    )
    call = ProviderCall(ProviderChoice("slow", ""), place, "mark", "a")
    ended = run(calls.reattach(call, lambda _: None))
    slow.go_on.set()
    assert isinstance(ended, Finished)
    assert ended.result.failure is not None
    assert ended.result.failure.kind is FailureKind.OUTPUT_UNREADABLE
    assert place.output in ended.result.failure.message


HOSTILE = [
    "--dangerously-skip-permissions",
    "-x",
    "a b",
    "",
    "a/../b",
    "a\nb",
    "a\x1b[2J",
    "x" * 200,
    "é",
    "$(id)",
]


@pytest.mark.parametrize("session", HOSTILE)
def test_invalid_session_id_of_an_agent_is_neither_recorded_nor_resumed(tmp_path: Path, session: str) -> None:
    crashed = fails(Failure(FailureKind.PROVIDER_CRASHED, "it died"), usage=Usage(5, agent_session=session))
    provider = ScriptedProvider([crashed, says("done")], resumes=True)

    async def main() -> list[f.AnyFact]:
        async with engine(tmp_path, provider, clock=FakeClock()) as made:
            assert (await made.run(pipeline(), session="s")).status == "completed"
            return [event.fact for event in made.events("s")]

    facts = run(main())
    (failed,) = [fact for fact in facts if isinstance(fact, f.ErrorOccurred)]
    assert (failed.agent_session, failed.usage) == (None, Usage(5))
    assert [call.resume for call in provider.calls] == ["", ""]


class Hostile(CommandProvider):
    def __init__(self) -> None:
        super().__init__(ENVIRON, name="hostile", config={"run": "exit 1"})

    def capabilities(self) -> Capabilities:
        return Capabilities(supports_resume=True)

    def interpret(self, exit: Exit) -> ExecuteResult:
        return replace(super().interpret(exit), usage=Usage(agent_session="--yolo"))


def test_invalid_session_id_of_a_program_is_neither_recorded_nor_resumed(tmp_path: Path) -> None:
    async def main() -> list[f.AnyFact]:
        async with Engine(
            tmp_path, providers={"hostile": Hostile()}, environ=ENVIRON, clock=FakeClock()
        ) as sdk:
            assert (await sdk.run(pipeline(node(provider="hostile")), session="s")).status == "failed"
            return [event.fact for event in sdk.events("s")]

    started = [fact for fact in run(main()) if isinstance(fact, f.AttemptStarted)]
    assert [fact.resume for fact in started] == [None, None]
