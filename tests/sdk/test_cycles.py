"""A pipeline that plans, builds, verifies and reviews, in real runs: how it goes back, and when it asks."""

import errno
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import engine, node, pipeline, run
from tests.sdk.test_checks import found

from agentforge import RunResult
from agentforge.model.errors import StorageFailed
from agentforge.model.status import RunStatus
from agentforge.system.disk import Disk
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

STAGES = ("plan", "build", "verify", "review")


def ran(project: Path, verdicts: dict[str, list[str]], check: str = "true", **limits: int) -> RunResult:
    """Each stage reports its verdicts in turn, then `pass`; the builder writes a file at each visit."""
    visits = dict.fromkeys(STAGES, 0)

    def act(request: Any) -> Any:
        stage = next(name for name in STAGES if f"-{name}/" in request.result_path)
        visits[stage] += 1
        if stage == "build":
            (project / "work").write_text("done\n" * visits[stage])
        said = verdicts.get(stage, [])[visits[stage] - 1 : visits[stage]]
        return says("done", "stop", verdict=said[0] if said else "pass")(request)

    definition = pipeline(
        node("plan"),
        node("build"),
        node("verify", checks=[{"name": "test", "run": check}], on={"fail": "build"}),
        node("review", on={"reject": "plan"}),
        limits=limits,
    )

    async def main() -> RunResult:
        async with engine(project, ScriptedProvider([act])) as sdk:
            return await sdk.run(definition, session="s")

    return run(main())


def visited(project: Path) -> list[str]:
    return [started["name"] for started in found(project, "node_start")]


def test_should_plan_execute_verify_review(tmp_path: Path) -> None:
    assert ran(tmp_path, {}).completed
    assert visited(tmp_path) == list(STAGES)


def test_should_handle_verification_failure(tmp_path: Path) -> None:
    assert ran(tmp_path, {}, check="test $(wc -l < work) -ge 2").completed
    assert visited(tmp_path) == ["plan", "build", "verify", "build", "verify", "review"]


def test_should_handle_review_rejection(tmp_path: Path) -> None:
    assert ran(tmp_path, {"review": ["reject"]}).completed
    assert visited(tmp_path) == [*STAGES, *STAGES]


def test_rejections_beyond_the_cycle_limit_ask(tmp_path: Path) -> None:
    result = ran(tmp_path, {"review": ["reject"] * 9}, cycles=2)
    assert result.status is RunStatus.PAUSED
    (request,) = result.requests
    assert (request.reason, request.options) == ("cycle_limit", ("retry", "accept", "resume", "cancel"))
    assert visited(tmp_path) == [*STAGES, *STAGES]


def test_failure_that_comes_back_asks_before_the_cycle_limit(tmp_path: Path) -> None:
    """The same failure although the files changed: another cycle would find it again."""
    result = ran(tmp_path, {}, check="echo broken; exit 1", cycles=9, cluster=2)
    assert result.status is RunStatus.PAUSED
    (request,) = result.requests
    assert request.reason == "failure_cluster"
    assert "broken" in request.question
    assert visited(tmp_path) == ["plan", "build", "verify", "build", "verify"]


def test_transition_that_cannot_be_recorded_leaves_the_run_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at that line of the log; with room again, the run continues from there."""
    write = Disk.write

    def full(self: Disk, fd: int, data: bytes) -> int:
        if b'"type":"stage_transition"' in data:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, fd, data)

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "write", full)
        with pytest.raises(StorageFailed, match="No space left"):
            ran(tmp_path, {}, check="test -e fixed")
    assert found(tmp_path, "stage_transition") == []
    assert visited(tmp_path) == ["plan", "build", "verify"]

    def repair(request: Any) -> Any:
        (tmp_path / "fixed").touch()
        return says("done", "stop", verdict="pass")(request)

    async def main() -> RunResult:
        async with engine(tmp_path, ScriptedProvider([repair])) as sdk:
            return await sdk.recover("s")

    assert run(main()).completed
    assert visited(tmp_path) == ["plan", "build", "verify", "build", "verify", "review"]
    (transition,) = found(tmp_path, "stage_transition")
    assert (transition["to"], transition["cycle"]) == ("build", 2)
    assert [outcome["status"] for outcome in found(tmp_path, "check_complete")] == ["fail", "pass"]
