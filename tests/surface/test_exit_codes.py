"""One table from every way to end to an exit status."""

from datetime import UTC, datetime
from pathlib import Path
from signal import SIGINT, SIGTERM

import pytest
from msgspec.structs import replace

from agentforge.cli import exit_codes
from agentforge.cli.invocation import Invocation
from agentforge.model import errors
from agentforge.model.errors import InvalidRequest
from agentforge.model.request import Request, RequestKind
from agentforge.model.status import RunStatus
from agentforge.views.results import RunResult


def error_classes() -> set[type[errors.AgentForgeError]]:
    found, waiting = set(), [errors.AgentForgeError]
    while waiting:
        kind = waiting.pop()
        found.add(kind)
        waiting += kind.__subclasses__()
    return {kind for kind in found if kind.__module__.startswith("agentforge.")}


def test_no_error_code_is_missing_from_the_table() -> None:
    assert {kind.code for kind in error_classes()} == set(exit_codes.BY_ERROR)


def test_every_status_in_the_table_is_documented() -> None:
    assert set(exit_codes.BY_ERROR.values()) <= set(exit_codes.MEANINGS)


def asking(reason: str, kind: RequestKind = "escalation") -> Request:
    now = datetime(2026, 1, 15, tzinfo=UTC)
    return Request(f"{reason}-1", kind, reason, reason, "Retry?", ("resume", "cancel"), now)


def tried(kind: str) -> Request:
    """The request after a failure of that kind."""
    return replace(asking("retries_exhausted"), subject=kind)


def result(
    status: RunStatus,
    error_type: str | None = None,
    asks: RequestKind | None = None,
    requests: tuple[Request, ...] = (),
) -> RunResult:
    if asks:
        requests = (asking("attempts_lost", asks),)
    return RunResult("s", status, "", 1, "/runs/s", error_type=error_type, requests=requests)


@pytest.mark.parametrize(
    ("ended", "signal", "code"),
    [
        (result(RunStatus.COMPLETED), None, 0),
        (result(RunStatus.COMPLETED), SIGINT, 0),
        (result(RunStatus.FAILED, "provider_crashed"), None, 1),
        (result(RunStatus.FAILED, "iteration_timeout"), None, 20),
        (result(RunStatus.FAILED, "provider_timeout"), None, 20),
        (result(RunStatus.PAUSED, asks="escalation"), None, 22),
        (result(RunStatus.AWAITING_APPROVAL, asks="question"), None, 22),
        (result(RunStatus.AWAITING_APPROVAL, asks="approval"), None, 0),
        (result(RunStatus.AWAITING_APPROVAL, asks="checkpoint"), None, 0),
        (result(RunStatus.PAUSED, asks="escalation"), SIGTERM, 22),
        (result(RunStatus.FAILED, "checks_failed"), None, 1),
        (result(RunStatus.PAUSED, requests=(asking("cycle_limit"),)), None, 21),
        (result(RunStatus.PAUSED, requests=(asking("runtime_limit"), asking("cycle_limit"))), SIGINT, 21),
        *(
            (result(RunStatus.PAUSED, requests=(asking(reason),)), None, 22)
            for reason in ("failure_cluster", "no_progress", "verdict", "check_lost", "runtime_limit")
        ),
        *(
            (result(RunStatus.PAUSED, requests=(asking("cycle_limit"), tried(kind))), None, code)
            for kind, code in (("provider_timeout", 20), ("iteration_timeout", 20), ("agent_error", 21))
        ),
        (result(RunStatus.PAUSED, requests=(tried("provider_auth"),)), SIGINT, 22),
        (result(RunStatus.ABORTED), None, 23),
        (result(RunStatus.PAUSED), None, 0),
        (result(RunStatus.AWAITING_APPROVAL), None, 0),
        (result(RunStatus.PAUSED), SIGINT, 130),
        (result(RunStatus.PAUSED), SIGTERM, 143),
    ],
)
def test_exit_code_of_a_run(ended: RunResult, signal: object, code: int) -> None:
    assert exit_codes.of_result(ended, signal) == code  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("codes", "worst"),
    [([], 0), ([0, 22, 1], 1), ([0, 22], 22), ([1, 143], 143), ([0, 23], 23), ([20, 2], 2)],
)
def test_the_worst_of_several_runs_decides(codes: list[int], worst: int) -> None:
    assert exit_codes.worst(codes) == worst


def test_a_current_folder_that_was_deleted_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidRequest, match="the current folder no longer exists"):
        _ = Invocation().root
