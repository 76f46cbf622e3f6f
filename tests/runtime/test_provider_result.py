"""What a faulty or hostile provider returns fails its attempt; no event and no file gets out of hand."""

import json
import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.sdk.projects import ENVIRON, node, pipeline, run, run_dir

from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.cli import CliAgent
from agentforge.model import facts as f
from agentforge.model.artifact import MAX_ARTIFACT_BYTES, MAX_ARTIFACT_DEPTH
from agentforge.model.failure import MAX_MESSAGE_CHARS, Failure, FailureKind
from agentforge.model.result import Usage
from agentforge.ports.provider import Capabilities, ExecuteRequest, ExecuteResult, Exit
from agentforge.runtime.provider_result import MAX_COUNT, MAX_MODEL_CHARS, checked
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider

HUGE = "x" * 30_000_000
SMALL = {"summary": "done"}
NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
CYCLIC: dict[str, Any] = {}
CYCLIC["again"] = CYCLIC


class Returning(ScriptedProvider):
    def __init__(self, returned: Callable[[], Any], *, uses_files: bool) -> None:
        super().__init__([])
        self._returned = returned
        self._uses_files = uses_files

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), uses_files=self._uses_files)

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        return self._returned()  # type: ignore[no-any-return]


def raising(error: Exception) -> Any:
    raise error


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError


INVALID: dict[str, Any] = {
    "summary": lambda: ExecuteResult(result={"summary": HUGE}),
    "list": lambda: ExecuteResult(result={"work": {"items_completed": ["x" * 1000] * 30_000}}),
    "key": lambda: ExecuteResult(result={HUGE: 1}),
    "no JSON": lambda: ExecuteResult(result={"summary": object()}),
    "not UTF-8": lambda: ExecuteResult(result={"summary": "\udcff"}),
    "cyclic": lambda: ExecuteResult(result=CYCLIC),
}
CRASHED: dict[str, Any] = {
    "None": lambda: None,
    "a dict": lambda: {"summary": "done"},
    "result is a text": lambda: ExecuteResult(result="done"),  # type: ignore[arg-type]
    "artifact is a list": lambda: ExecuteResult(result=SMALL, artifact=[]),  # type: ignore[arg-type]
    "output is bytes": lambda: ExecuteResult(output=b"done"),  # type: ignore[arg-type]
    "usage is a dict": lambda: ExecuteResult(result=SMALL, usage={"input_tokens": 1}),  # type: ignore[arg-type]
    "failure is a text": lambda: ExecuteResult(failure="broken"),  # type: ignore[arg-type]
    "message": lambda: ExecuteResult(failure=Failure(FailureKind.PROVIDER_CRASHED, HUGE)),
    "message not UTF-8": lambda: ExecuteResult(failure=Failure(FailureKind.PROVIDER_CRASHED, "\udcff")),
    "raised": lambda: raising(ValueError(HUGE)),
    "raised not UTF-8": lambda: raising(OSError("\udcff")),
    "raised without a message": lambda: raising(Unprintable()),
}


@pytest.fixture(autouse=True)
def _without_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    """What the engine logs contains the texts of the providers."""
    caplog.set_level(logging.CRITICAL, "agentforge.run")


def facts_of(project: Path, returned: Callable[[], Any], *, uses_files: bool = False) -> list[f.AnyFact]:
    """What is recorded of a run whose provider returns this."""

    async def main() -> list[f.AnyFact]:
        providers = {"scripted": Returning(returned, uses_files=uses_files)}
        environ = {**ENVIRON, "MY_API_KEY": "sk-0123456789"}
        async with Engine(project, providers=providers, environ=environ) as sdk:
            stage = node(provider="scripted", retry={"max_attempts": 1}, runs=1)
            await sdk.run(pipeline(stage), session="s")
            return [event.fact for event in sdk.events("s")]

    return run(main())


def largest_file(project: Path) -> int:
    return max(path.stat().st_size for path in run_dir(project).rglob("*") if path.is_file())


@pytest.mark.parametrize("returned", INVALID.values(), ids=INVALID)
@pytest.mark.parametrize("uses_files", [True, False])
def test_result_that_is_too_large_or_not_json_is_invalid(
    tmp_path: Path, returned: Callable[[], Any], uses_files: bool
) -> None:
    (error,) = [
        fact
        for fact in facts_of(tmp_path, returned, uses_files=uses_files)
        if isinstance(fact, f.ErrorOccurred)
    ]
    assert error.kind is FailureKind.RESULT_INVALID
    assert largest_file(tmp_path) < 100_000


@pytest.mark.parametrize("returned", CRASHED.values(), ids=CRASHED)
def test_return_value_of_another_type_and_a_long_message_fail_the_attempt(
    tmp_path: Path, returned: Callable[[], Any]
) -> None:
    facts = facts_of(tmp_path, returned)
    (error,) = [fact for fact in facts if isinstance(fact, f.ErrorOccurred)]
    assert error.kind is FailureKind.PROVIDER_CRASHED
    assert len(error.message) <= MAX_MESSAGE_CHARS
    assert isinstance(facts[-1], f.SessionFailed)
    assert largest_file(tmp_path) < 100_000


ODD = Usage(10**30, -1, True, math.nan, HUGE, HUGE)  # type: ignore[arg-type]


def test_usage_is_bounded(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, lambda: ExecuteResult(HUGE, 0, 10**30, result=SMALL, usage=ODD))
    (done,) = [fact for fact in facts if isinstance(fact, f.IterationCompleted)]
    assert done.usage is not None
    assert done.usage == Usage(model=f"{'x' * (MAX_MODEL_CHARS - 1)}…")
    assert done.duration_ms == MAX_COUNT
    assert isinstance(facts[-1], f.SessionCompleted)


@pytest.mark.parametrize("cost", [math.inf, -0.5, 10**30, True, "1"])
def test_impossible_cost_is_unknown(cost: Any) -> None:
    usage = checked(ExecuteResult(usage=Usage(5, 6, 7, cost, "opus", "abc")), "p").usage
    assert usage == Usage(5, 6, 7, None, "opus", "abc")


def test_what_is_valid_is_returned_unchanged() -> None:
    returned = ExecuteResult("out", 0, 5, result=SMALL, usage=Usage(1, 2, 3, 0.5, "opus", "abc"))
    assert checked(returned, "p") is returned


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels - 1):
        found = {"in": found}
    return found


@pytest.mark.parametrize(
    ("artifact", "problem"),
    [
        ({"text": "x" * MAX_ARTIFACT_BYTES}, "it has 16,777,227 bytes; the maximum is 16 MB"),
        (nested(MAX_ARTIFACT_DEPTH + 1), "it is nested deeper than 64 levels"),
        (nested(100_000), "it is not JSON: "),
        (CYCLIC, "it is not JSON: "),
        ({"at": object()}, "it is not JSON: "),
        ({"text": "\udcff"}, "it is not JSON: "),
    ],
    ids=["too large", "too deep", "far too deep", "cyclic", "no JSON", "not UTF-8"],
)
def test_artifact_that_is_too_large_or_not_json_is_invalid(artifact: dict[str, Any], problem: str) -> None:
    found = checked(ExecuteResult(artifact=artifact), "p")
    assert found.artifact is None
    assert found.failure is not None
    assert found.failure.kind is FailureKind.ARTIFACT_INVALID
    assert found.failure.message.startswith(f"p returned no artifact: $: {problem}")


def test_failure_of_the_provider_counts_more_than_its_artifact() -> None:
    failure = Failure(FailureKind.PROVIDER_AUTH, "not logged in")
    assert checked(ExecuteResult(artifact=CYCLIC, failure=failure), "p").failure == failure


def test_artifact_becomes_what_a_program_would_write() -> None:
    given = {"at": NOON, "ids": ("a", "b"), 1: nested(MAX_ARTIFACT_DEPTH - 1)}
    found = checked(ExecuteResult(artifact=given), "p").artifact  # type: ignore[arg-type]
    assert found == {"at": "2026-01-15T12:00:00Z", "ids": ["a", "b"], "1": nested(MAX_ARTIFACT_DEPTH - 1)}


def test_stream_of_a_cli_is_bounded() -> None:
    counts = {"inputTokens": 10**30, "outputTokens": -1, "costUSD": 10**30}
    event = {
        "type": "result",
        "subtype": "error",
        "is_error": True,
        "result": HUGE,
        "session_id": HUGE,
        "modelUsage": {f"claude-{HUGE}": counts},
    }
    ended = CliAgent(CLAUDE, {}).interpret(Exit(1, None, 10, f"{json.dumps(event)}\n"))
    found = checked(ended, "claude")
    assert found.failure is not None
    assert len(found.failure.message) <= MAX_MESSAGE_CHARS
    assert found.usage is not None
    assert len(found.usage.model or "") <= MAX_MODEL_CHARS
    assert (found.usage.agent_session, found.usage.input_tokens, found.usage.cost_usd) == (None, None, None)
