"""Recorded runs in which a person skipped a check or a stage, or in which a stage was retried: a replay and a
comparison of the course do the same."""

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import engine, node, pipeline, run, run_dir, types
from tests.sdk.test_checks import found
from tests.sdk.test_recorded_checks import compared, replayed

from agentforge import RunResult
from agentforge.model.status import RunStatus
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

REASON = {"test": "the server is down"}
FAILS = [{"name": "test", "run": "exit 1"}, {"name": "lint", "run": "true"}]
CHECKED = pipeline(node("build"), node("verify", checks=FAILS, on={"fail": "build"}), limits={"cycles": 2})
SAID = ("check_start", "waived", "stage_verdict", "stage_transition", "request_opened", "stage_retry")


def recorded(
    project: Path, definition: dict[str, Any], *acts: Any, later: dict[str, Any] | None = None, **options: Any
) -> RunResult:
    project.mkdir()

    async def main() -> RunResult:
        async with engine(project, ScriptedProvider(acts or [says("done", "stop")])) as sdk:
            result = await sdk.run(definition, session="s", record=True, **options)
            if result.status is RunStatus.PAUSED:
                result = await sdk.resume("s", **(later or {"skip_checks": REASON}))
            return result

    return run(main())


def told(project: Path) -> list[str]:
    return [kind for kind in types(project) if kind in SAID]


def is_the_same(tmp_path: Path, definition: dict[str, Any]) -> bool:
    """Whether a replay, and comparisons with the log and with the cassette, take the course of the run."""
    first, second = tmp_path / "first", tmp_path / "second"
    cassette = run_dir(first) / "cassette.jsonl"
    assert replayed(second, cassette, allow_commands=True).completed
    assert told(second) == told(first)
    return all(compared(first, source, definition).is_same for source in ("s", str(cassette)))


def test_check_that_was_skipped_from_the_start_is_skipped_in_a_replay(tmp_path: Path) -> None:
    assert recorded(tmp_path / "first", CHECKED, skip_checks=REASON).completed
    assert is_the_same(tmp_path, CHECKED)
    (verdict,) = found(tmp_path / "second", "stage_verdict")
    assert (verdict["verdict"], verdict["waived"]) == ("pass", ["test"])
    (start,) = found(tmp_path / "second", "session_start")
    assert start["waivers"][0]["reason"] == "the server is down"


def test_check_that_was_skipped_at_a_question_is_skipped_there_in_a_replay(tmp_path: Path) -> None:
    assert recorded(tmp_path / "first", CHECKED).completed
    assert told(tmp_path / "first").count("check_start") == 5
    assert is_the_same(tmp_path, CHECKED)
    assert found(tmp_path / "second", "waived") == found(tmp_path / "first", "waived")


def test_stage_that_was_skipped_is_skipped_in_a_replay(tmp_path: Path) -> None:
    skipped = {"skip": {"verify": "by hand"}}
    for name, given in (("start", skipped), ("question", {"later": skipped})):
        project = tmp_path / name
        project.mkdir()
        assert recorded(project / "first", CHECKED, **given).completed
        assert is_the_same(project, CHECKED)
        (*_, verdict) = found(project / "second", "stage_verdict")
        assert (verdict["verdict"], verdict["reason"], bool(verdict["skipped_by"])) == (
            "pass",
            "by hand",
            True,
        )


@pytest.mark.parametrize("tries", [1, 2])
def test_stage_that_was_retried_is_retried_in_a_replay(tries: int, tmp_path: Path) -> None:
    retry = {"max_attempts": 1, "initial_delay": 0, "stage": tries}
    wrong = [says("tried", "error", reason="no idea")] * tries
    definition = pipeline(node(retry=retry))
    assert recorded(tmp_path / "first", definition, *wrong, says("done", "stop")).completed
    assert told(tmp_path / "first") == ["stage_retry"] * tries
    assert is_the_same(tmp_path, definition)
    fewer = pipeline(node(retry={**retry, "stage": tries - 1}))
    assert not compared(tmp_path / "first", "s", fewer).is_same
