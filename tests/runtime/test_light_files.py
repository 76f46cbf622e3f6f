"""Files of light iterations, written from the log: complete ones only count as written."""

import resource
from pathlib import Path

import pytest
from tests.engine.plans import event

from agentforge.model.cursor import Cursor
from agentforge.model.errors import StorageFailed
from agentforge.model.event import Event
from agentforge.model.facts import IterationCompleted
from agentforge.model.layout import RunLayout
from agentforge.model.result import Decision, Result
from agentforge.runtime.view_files import light_iterations, write_iteration_files
from agentforge.views.history import MAX_LIGHT, History


def completed(
    seq: int, number: int, node: str = "0", provider: str | None = None, text: str = "said"
) -> Event:
    path = f"stage-{node}-{provider}/iterations/{number:03d}/result.json"
    fact = IterationCompleted("plan", 1, Decision.CONTINUE, "", path, Result(), 1, text=text)
    return event(seq, fact, Cursor(node, 1, number, provider))


def test_an_iteration_that_could_not_be_written_is_written_again(tmp_path: Path) -> None:
    layout, light = RunLayout(str(tmp_path), "s"), list(light_iterations([completed(1, 1)]))
    here = tmp_path / "stage-0-None" / "iterations" / "001"
    here.parent.mkdir(parents=True)
    here.touch()
    with pytest.raises(StorageFailed):
        write_iteration_files(layout, light)
    here.unlink()
    assert write_iteration_files(layout, light) == 1
    assert (here / "output.md").read_text() == "said"
    assert write_iteration_files(layout, light) == 0


def test_an_iteration_whose_output_could_not_be_written_is_written_again(tmp_path: Path) -> None:
    layout, text = RunLayout(str(tmp_path), "s"), "said " * 1000
    light = list(light_iterations([completed(1, 1, text=text)]))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(StorageFailed):
            write_iteration_files(layout, light)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert write_iteration_files(layout, light) == 1
    assert (tmp_path / "stage-0-None" / "iterations" / "001" / "output.md").read_text() == text


def test_the_latest_of_each_stage_and_branch_are_kept_for_writing(tmp_path: Path) -> None:
    places = [("0", None), ("1", None), ("2.0", "claude"), ("2.0", "codex")]
    layout, history = RunLayout(str(tmp_path), "s"), History()
    for n, (node, provider) in enumerate(places):
        for number in range(1, MAX_LIGHT + 3):
            history.apply(completed(100 * n + number, number, node, provider))
    assert sum(write_iteration_files(layout, latest) for latest in history.light.values()) == 4 * MAX_LIGHT
    for node, provider in places:
        folder = tmp_path / f"stage-{node}-{provider}" / "iterations"
        written = sorted(int(path.name) for path in folder.iterdir())
        assert written == list(range(3, MAX_LIGHT + 3))


@pytest.mark.parametrize(
    "path", ["/tmp/elsewhere/result.json", "../../x/result.json", "a/../../x/result.json"]
)
def test_an_iteration_is_not_written_outside_the_run(tmp_path: Path, path: str) -> None:
    project = tmp_path / "a" / "b"
    fact = IterationCompleted("plan", 1, Decision.CONTINUE, "", path, Result(), 1, text="said")
    assert write_iteration_files(RunLayout(str(project), "s"), [fact]) == 0
    assert list(tmp_path.rglob("result.json")) == []
