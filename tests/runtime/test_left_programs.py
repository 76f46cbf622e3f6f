"""What an earlier run left running: its supervisors, what they started, and cleanup programs."""

import asyncio
from pathlib import Path

import pytest

from agentforge.model.errors import RunActive
from agentforge.model.layout import AttemptLayout
from agentforge.runtime.attempt_folder import folder_marks, folder_place
from agentforge.runtime.supervision import (
    MAX_DEPTH,
    end_left,
    end_leftovers,
    left_supervisors,
    run_cleanup,
)

from .test_supervised_claims import SOMEBODY, FakeProcesses, claimed, ended


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


def attempt_at(run_dir: Path, depth: int) -> AttemptLayout:
    """An attempt that a supervisor claimed, at this depth of the folder of the run."""
    place = AttemptLayout(str(run_dir.joinpath(*["inner"] * (depth - 1), "attempt-1")))
    Path(place.root).mkdir(parents=True)
    claimed(place)
    return place


def elsewhere(run_dir: Path) -> FakeProcesses:
    """A supervisor that was started for a folder outside of the run's."""
    return FakeProcesses(AttemptLayout(f"{run_dir}-before/attempt-1"))


def test_supervisor_is_found_by_the_folder_that_it_was_started_for(run_dir: Path) -> None:
    processes = FakeProcesses(AttemptLayout(f"{run_dir}/stage-00-plan/attempt-1"))
    assert left_supervisors(str(run_dir), processes) == [SOMEBODY]
    assert left_supervisors(str(run_dir / "stage"), processes) == []
    processes.alive = False
    assert left_supervisors(str(run_dir), processes) == []


@pytest.mark.parametrize("depth", [1, 2, MAX_DEPTH - 1])
def test_supervisor_of_a_moved_folder_is_found_by_its_claim(run_dir: Path, depth: int) -> None:
    attempt_at(run_dir, depth)
    (run_dir / "inner/beside").mkdir(parents=True)
    assert left_supervisors(str(run_dir), elsewhere(run_dir)) == [SOMEBODY]


def test_claims_are_searched_to_a_limited_depth(run_dir: Path) -> None:
    attempt_at(run_dir, MAX_DEPTH)
    assert left_supervisors(str(run_dir), elsewhere(run_dir)) == []


def test_supervisor_of_a_project_that_was_copied_is_left_alone(run_dir: Path) -> None:
    place = attempt_at(run_dir, 2)
    claimed(place, place={"path": "/original/attempt-1", "device": 1, "inode": 1})
    processes = elsewhere(run_dir)
    assert left_supervisors(str(run_dir), processes) == []
    asyncio.run(end_leftovers(str(run_dir), processes))
    assert processes.asked == []


def test_supervisors_are_ended_and_awaited(run_dir: Path) -> None:
    processes = elsewhere(run_dir)
    asyncio.run(end_left([SOMEBODY], processes))
    assert processes.asked == ["terminate", "wait"]


def test_supervisor_that_does_not_end_is_named(run_dir: Path) -> None:
    processes = elsewhere(run_dir)

    def too_long() -> None:
        raise TimeoutError

    processes.on_wait = too_long
    with pytest.raises(RunActive, match=r"didn't end within 60 s: PID 4711$") as refused:
        asyncio.run(end_left([SOMEBODY], processes))
    assert refused.value.hint == "end them yourself (kill -9 4711), then retry"


def test_programs_of_a_supervisor_that_was_killed_are_ended_by_their_marks(run_dir: Path) -> None:
    place = attempt_at(run_dir, 2)
    processes = elsewhere(run_dir)
    asyncio.run(end_leftovers(str(run_dir), processes))
    marks = folder_marks(folder_place(place), "m")
    assert processes.asked == [f"end {name}={value}" for name, value in marks.items()]
    processes.asked.clear()
    ended(place)
    asyncio.run(end_leftovers(str(run_dir), processes))
    assert processes.asked == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("sleep", "60"), ["cleanup program sleep 60 timed out after 0.05 s"]),
        (("/no/such program",), ["can't run cleanup program /no/such program: No such file or directory"]),
        (("true",), []),
        ((), []),
    ],
)
def test_cleanup_that_failed_is_reported(
    argv: tuple[str, ...], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        asyncio.run(run_cleanup(argv, 0.05 if argv[:1] == ("sleep",) else 60.0))
    assert caplog.messages == said
