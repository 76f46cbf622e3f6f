"""Failures between the provider api and its model: retried or classified."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.adapters.api_tasks import KEY, WORK, Ran, files, task

from agentforge.model.failure import FailureKind
from agentforge.testing.model_server import FOREVER, Call, Fault, ModelServer, Script, Turn
from agentforge.tool_loop.task import Endpoint, ModelTask, Retrying


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_trouble_that_passes_is_waited_for(
    model_server: ModelServer, wire_format: str, tmp_path: Path, status: int
) -> None:
    script = replace(WORK, faults=(Fault(status, times=2, after=1, retry_after=0),))
    ran = Ran(task(model_server, script, wire_format, tmp_path))
    assert ran.outcome.failure is None
    assert [event.number for event in ran.of(Retrying)] == [1, 2]
    assert [seen.status for seen in model_server.requests("t")] == [200, status, status, 200]
    assert ran.outcome.steps == 2


@pytest.mark.parametrize(
    ("fault", "kind", "requests", "says"),
    [
        (Fault(401), FailureKind.PROVIDER_AUTH, 1, "fix SOME_KEY"),
        (Fault(403), FailureKind.PROVIDER_AUTH, 1, "fix SOME_KEY"),
        (Fault(429, retry_after=0), FailureKind.PROVIDER_RATE_LIMITED, 3, "rate limited by"),
        (Fault(500, retry_after=0), FailureKind.PROVIDER_OVERLOADED, 3, "is unavailable (500"),
        (Fault(502, retry_after=0), FailureKind.PROVIDER_OVERLOADED, 3, "is unavailable (502"),
        (Fault(503, retry_after=0), FailureKind.PROVIDER_OVERLOADED, 3, "is unavailable (503"),
        (Fault(529, retry_after=0), FailureKind.PROVIDER_OVERLOADED, 3, "is unavailable (529"),
        (Fault(404), FailureKind.PROVIDER_MISSING, 1, "not found at http://127.0.0.1"),
        (Fault(400), FailureKind.PROVIDER_MISSING, 1, "rejected the request (400"),
    ],
)
def test_refusals_are_classified(
    model_server: ModelServer,
    wire_format: str,
    tmp_path: Path,
    fault: Fault,
    kind: FailureKind,
    requests: int,
    says: str,
) -> None:
    outcome = Ran(task(model_server, replace(WORK, faults=(fault,)), wire_format, tmp_path)).outcome
    assert outcome.failure is not None
    assert outcome.failure.kind is kind
    assert says in outcome.failure.message
    assert KEY not in outcome.failure.message
    assert len(model_server.requests("t")) == requests
    assert not (tmp_path / "iteration/result.json").exists()


def test_exceeded_quota_is_not_retried(model_server: ModelServer, wire_format: str, tmp_path: Path) -> None:
    fault = (
        Fault(400, type="invalid_request_error", message="Your credit balance is too low to access the API")
        if wire_format == "anthropic"
        else Fault(429, type="insufficient_quota", details={"code": "insufficient_quota"})
    )
    outcome = Ran(task(model_server, replace(WORK, faults=(fault,)), wire_format, tmp_path)).outcome
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.PROVIDER_QUOTA
    assert len(model_server.requests("t")) == 1


def test_long_limit_is_left_to_the_engine_with_the_time_of_its_end(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    outcome = Ran(
        task(model_server, replace(WORK, faults=(Fault(429, retry_after=3600),)), wire_format, tmp_path)
    ).outcome
    assert outcome.failure is not None
    assert outcome.failure.resets_at is not None
    assert timedelta(minutes=59) < outcome.failure.resets_at - datetime.now(UTC) <= timedelta(hours=1)
    assert len(model_server.requests("t")) == 1


def test_unreachable_server_has_a_hint(wire_format: str, tmp_path: Path) -> None:
    where = Endpoint(wire_format, "m", "http://127.0.0.1:9", start_hint="start it with `ollama serve`")  # type: ignore[arg-type]
    outcome = Ran(ModelTask("Do.", where, files(tmp_path), retries=1)).outcome
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.PROVIDER_UNREACHABLE
    assert "can't connect to http://127.0.0.1:9" in outcome.failure.message
    assert "ollama serve" in outcome.failure.message


@pytest.mark.parametrize("neatly", [False, True])
def test_answer_that_breaks_off_twice_is_retried(
    model_server: ModelServer, wire_format: str, tmp_path: Path, neatly: bool
) -> None:
    script = replace(WORK, cuts=2, cuts_neatly=neatly)
    ran = Ran(task(model_server, script, wire_format, tmp_path))
    assert ran.outcome.failure is None
    assert len(ran.of(Retrying)) == 2
    assert (tmp_path / "work/hello.txt").read_text() == "hello\n"


def test_answer_that_always_breaks_off_fails(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    outcome = Ran(task(model_server, replace(WORK, cuts=FOREVER), wire_format, tmp_path)).outcome
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.PROVIDER_UNREACHABLE
    assert "lost (" in outcome.failure.message
    assert not (tmp_path / "work/hello.txt").exists()


@pytest.mark.parametrize("where", ["before", "within"])
def test_answer_that_never_comes_is_a_timeout(
    model_server: ModelServer, wire_format: str, tmp_path: Path, where: str
) -> None:
    script = replace(WORK, hang=where)
    outcome = Ran(task(model_server, script, wire_format, tmp_path, request_timeout=0.3)).outcome
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.PROVIDER_TIMEOUT
    assert len(model_server.requests("t")) == 1


def test_slow_answer_does_not_time_out_while_it_streams(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    outcome = Ran(
        task(model_server, replace(WORK, drip=0.05), wire_format, tmp_path, request_timeout=3.0)
    ).outcome
    assert outcome.failure is None


def test_model_that_never_ends_meets_its_limit(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    again = Script((Turn("", (Call("list_directory"),)),) * 9)
    outcome = Ran(task(model_server, again, wire_format, tmp_path, max_steps=3)).outcome
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.AGENT_LIMIT
    assert "max_steps" in outcome.failure.message
    assert len(model_server.requests("t")) == 3
    assert outcome.usage is not None
    assert outcome.usage.input_tokens == 3000
