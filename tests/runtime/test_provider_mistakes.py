"""Faulty providers: their bugs fail an attempt, never the engine."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.agents import end_left
from tests.sdk.projects import ENVIRON, node, pipeline, run

from agentforge.adapters.providers.command import CommandProvider
from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import Command, ExecuteRequest, ExecuteResult, Exit, Provider
from agentforge.sdk.engine import Engine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import fails, says

UNSUPPORTED = FakeClock().now() + timedelta(hours=5)
WRITES = 'printf \'{"summary": "done"}\' > "$MOCK_RESULT_FILE"'


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    end_left(tmp_path)


class Mistaken(CommandProvider):
    """A program whose provider has a mistake in one of its methods."""

    def __init__(self, mistake: str) -> None:
        super().__init__(ENVIRON, name="mistaken", config={"run": f"cat >/dev/null; {WRITES}"})
        self._mistake = mistake

    def command(self, request: ExecuteRequest) -> Command:
        if self._mistake == "command":
            raise KeyError("endpoint")
        return super().command(request)

    def interpret(self, exit: Exit) -> ExecuteResult:
        if self._mistake == "interpret":
            raise KeyError("endpoint")
        return super().interpret(exit)


def events(project: Path, stage: dict[str, Any], **providers: Provider) -> tuple[str, list[f.AnyFact]]:
    async def main() -> tuple[str, list[f.AnyFact]]:
        async with Engine(project, providers=providers, environ=ENVIRON, clock=FakeClock()) as sdk:
            result = await sdk.run(pipeline(stage), session="s")
            return result.status, [event.fact for event in sdk.events("s")]

    return run(main())


@pytest.mark.parametrize("mistake", ["command", "interpret"])
def test_exception_from_a_provider_fails_the_attempt_and_the_next_provider_takes_over(
    project: Path, mistake: str
) -> None:
    status, facts = events(
        project,
        node(provider=["mistaken", "scripted"]),
        mistaken=Mistaken(mistake),
        scripted=ScriptedProvider([says("done")]),
    )
    assert status == "completed"
    errors = [fact for fact in facts if isinstance(fact, f.ErrorOccurred)]
    assert [error.kind for error in errors] == [FailureKind.PROVIDER_CRASHED] * 2
    assert errors[0].message == "mistaken raised KeyError: 'endpoint'"
    assert errors[0].started is (mistake == "interpret")


@pytest.mark.parametrize("mistake", ["command", "interpret"])
def test_exception_out_of_a_judge_fails_the_judgment_only(project: Path, mistake: str) -> None:
    judged = {"type": "judgment", "max": 2, "consensus": 1}
    status, facts = events(
        project,
        node(termination=judged),
        claude=Mistaken(mistake),
        scripted=ScriptedProvider([says("one"), says("two")]),
    )
    assert status == "completed"
    judgments = [fact for fact in facts if isinstance(fact, f.JudgeCompleted)]
    assert {(judgment.status, judgment.result.reason) for judgment in judgments} == {
        ("failed", "invoke_failed")
    }


@pytest.mark.parametrize(
    ("claimed", "recorded"),
    [
        (UNSUPPORTED.replace(tzinfo=None), UNSUPPORTED),
        (UNSUPPORTED.astimezone(timezone(timedelta(hours=2))), UNSUPPORTED),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))), None),
    ],
)
def test_end_of_a_limit_is_recorded_in_utc(
    project: Path, claimed: datetime, recorded: datetime | None
) -> None:
    limit = Failure(FailureKind.PROVIDER_QUOTA, "used up", resets_at=claimed)
    status, facts = events(
        project,
        node(),
        scripted=ScriptedProvider([fails(limit), says("done")]),
    )
    assert status == "completed"
    (error,) = [fact for fact in facts if isinstance(fact, f.ErrorOccurred)]
    assert error.resets_at == recorded
    assert error.resets_at is None or error.resets_at.tzinfo is UTC
