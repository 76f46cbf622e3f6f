"""Files of a run of the shell engine: complete iterations stay as they are, all others are archived."""

from pathlib import Path

import pytest
from tests.engine.plans import plan_of, stage

from agentforge.legacy import import_run as imported_files
from agentforge.legacy.import_run import archive_incomplete, completed_stages
from agentforge.model.facts import ImportedStage
from agentforge.model.layout import RunLayout
from agentforge.model.state import StageState

PLAN = plan_of(stage("plan", runs=9))
FOLDER = "stage-00-plan"


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(str(tmp_path / "run"), "s")


def iterations(layout: RunLayout, count: int) -> list[Path]:
    folders = [Path(layout.iteration(FOLDER, number).root) for number in range(1, count + 1)]
    for folder in folders:
        folder.mkdir(parents=True)
        for name in ("output.md", "status.json"):
            (folder / name).write_text(folder.name)
    return folders


def test_all_iterations_that_are_not_complete_are_set_aside_and_no_other(layout: RunLayout) -> None:
    folders = iterations(layout, 5)
    archive_incomplete(layout, PLAN, (ImportedStage("0", 2, ()),))
    assert [(folder / "status.json").exists() for folder in folders] == [True, True, False, False, False]
    for folder in folders[2:]:
        assert (folder / "attempt-0" / "status.json").read_text() == folder.name


def test_outputs_of_complete_iterations_are_listed(layout: RunLayout) -> None:
    iterations(layout, 3)
    (left,) = completed_stages(layout, PLAN, (), StageState("0", 1, completed=2))
    assert [Path(path).parent.name for path in left.outputs] == ["001", "002"]
    assert (left.iterations, left.omitted) == (2, 0)


def test_of_many_outputs_the_latest_are_listed_and_the_rest_is_counted(layout: RunLayout) -> None:
    count = imported_files.KEPT + 3
    iterations(layout, count)
    (left,) = completed_stages(layout, PLAN, (), StageState("0", 1, completed=count))
    assert (len(left.outputs), left.omitted) == (imported_files.KEPT, 3)
    assert Path(left.outputs[-1]).parent.name == str(count)
