"""A recorded run with checks: a replay runs them on the files of the cassette, and a comparison of its course
uses their recorded outcomes."""

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, engine, node, pipeline, run, run_dir
from tests.sdk.test_checks import found

from agentforge import RunResult
from agentforge.app.runs.compilation import CourseComparison
from agentforge.model.errors import InvalidRequest
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

CHECKED = pipeline(
    node("build"),
    node(
        "verify", checks=[{"name": "test", "run": "echo ran >> ../ran; test -e work"}], on={"fail": "build"}
    ),
)


FAILS = "echo 'a.py:1: E5 bad'; exit 1"
COMPARED = pipeline(
    node(
        "build", checks=[{"name": "lint", "run": FAILS, "parse": "lines", "regressions": True, "at": "start"}]
    )
)


def recorded(project: Path, definition: dict[str, Any] = CHECKED) -> Path:
    """The work is done at the second visit. The cassette of the run."""
    project.mkdir()
    visits = iter(range(100))

    def act(request: Any) -> Any:
        number = next(visits)
        (project / ("work" if number > 1 else "notes")).write_text(f"visit {number}")
        return says("done", "stop", verdict="pass")(request)

    async def main() -> RunResult:
        async with engine(project, ScriptedProvider([act])) as sdk:
            return await sdk.run(definition, session="s", record=True)

    assert run(main()).completed
    return run_dir(project) / "cassette.jsonl"


def replayed(project: Path, cassette: Path, **options: Any) -> RunResult:
    project.mkdir(exist_ok=True)

    async def main() -> RunResult:
        async with Engine(project, environ=ENVIRON) as sdk:
            return await sdk.replay(str(cassette), session="s", **options)

    return run(main())


def compared(project: Path, source: str, definition: dict[str, Any]) -> CourseComparison:
    async def main() -> CourseComparison:
        async with engine(project) as sdk:
            return sdk.rehearse(source, definition)

    return run(main())


def statuses(project: Path) -> list[str]:
    return [outcome["status"] for outcome in found(project, "check_complete")]


def test_replay_runs_the_checks_on_the_files_of_the_cassette(tmp_path: Path) -> None:
    cassette = recorded(tmp_path / "first")
    assert statuses(tmp_path / "first") == ["fail", "pass"]
    (tmp_path / "ran").unlink()
    assert replayed(tmp_path / "second", cassette, allow_commands=True).completed
    assert statuses(tmp_path / "second") == ["fail", "pass"]
    assert (tmp_path / "ran").read_text() == "ran\n" * 2


def test_replay_of_a_cassette_with_checks_must_be_allowed(tmp_path: Path) -> None:
    cassette = recorded(tmp_path / "first")
    (tmp_path / "ran").unlink()
    with pytest.raises(InvalidRequest, match="runs commands: `echo ran"):
        replayed(tmp_path / "second", cassette)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("is_cassette", [True, False])
def test_comparison_of_the_course_uses_the_recorded_outcomes(is_cassette: bool, tmp_path: Path) -> None:
    cassette = recorded(tmp_path / "first")
    (tmp_path / "ran").unlink()
    source = str(cassette) if is_cassette else "s"
    same = compared(tmp_path / "first", source, CHECKED)
    assert same.is_same
    steps = [(step.what, step.detail) for step in same.rehearsal.now]
    assert steps.count(("check_outcome", "test: fail")) == steps.count(("check_outcome", "test: pass")) == 1
    assert ("route", "build") in steps
    other = compared(tmp_path / "first", source, pipeline(node("build"), node("verify")))
    assert other.rehearsal.difference is not None
    assert other.rehearsal.difference.past.what == "check"
    assert not (tmp_path / "ran").exists()


def test_a_baseline_is_recorded_beside_the_outcome_that_is_compared_with_it(tmp_path: Path) -> None:
    project = tmp_path / "first"
    same = compared(project, str(recorded(project, COMPARED)), COMPARED)
    steps = [step.detail for step in same.rehearsal.past if step.what == "check_outcome"]
    assert steps == ["baseline of lint: fail", "lint: pass"]
    assert same.is_same
