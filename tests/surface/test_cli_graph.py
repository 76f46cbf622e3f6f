"""`agentforge graph`: text, JSON and a picture."""

from pathlib import Path

import pytest
from tests.surface.terminal import Project

from agentforge import Engine, InvalidRequest, StorageFailed, write_graph
from agentforge.model.plan import Plan

PIPELINE = """\
name: checked
nodes:
  - {id: build, prompt: x, provider: mock}
  - {id: verify, prompt: x, provider: mock, checks: [{name: test, run: "true"}], on: {fail: build}}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Engine(tmp_path).compile(PIPELINE).plan


def test_graph_prints_the_routes_and_draws_them(project: Project) -> None:
    (project.root / "checked.yaml").write_text(PIPELINE)
    done = project.call("graph", "checked.yaml", "--svg", "checked.svg")
    assert done.code == 0
    assert done.lines == [
        "checked",
        "",
        "  build",
        "    pass → verify",
        "",
        "  verify",
        "    check test at the end: true (at most 10m Ns)",
        "    pass → done",
        "    fail → build (back, at most 3 cycles)",
        "    reject → the run fails",
        "    cycles: a person is asked at the limit, after 2 visits without progress, or after 3 visits with"
        " the same failure",
    ]
    assert (project.root / "checked.svg").read_text().startswith("<svg ")
    assert not (project.root / ".claude/pipeline-runs").exists()


def test_a_picture_is_drawn_again(plan: Plan, tmp_path: Path) -> None:
    drawn = write_graph(plan, tmp_path / "a.svg")
    (tmp_path / "a.svg").write_text("<svg>old</svg>")
    assert write_graph(plan, drawn) == str(tmp_path / "a.svg")
    assert "verify" in (tmp_path / "a.svg").read_text()


def test_a_picture_replaces_no_other_file_and_follows_no_link(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    with pytest.raises(InvalidRequest, match="not an SVG file"):
        write_graph(plan, tmp_path / "p.yaml")
    assert (tmp_path / "p.yaml").read_text() == PIPELINE
    (tmp_path / "old.svg").write_text("<svg/>")
    (tmp_path / "link.svg").symlink_to("old.svg")
    write_graph(plan, tmp_path / "link.svg")
    assert (tmp_path / "old.svg").read_text() == "<svg/>"


@pytest.mark.parametrize("name", ["folder", "missing/a.svg"])
def test_a_place_that_cannot_hold_a_picture_is_refused(plan: Plan, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageFailed) as refused:
        write_graph(plan, tmp_path / name)
    assert refused.value.hint == "choose a file in a folder that exists and that you may write to"
    assert (tmp_path / "folder").is_dir()
