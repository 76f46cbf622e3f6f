"""What an attempt's program may touch: the workspace, but of all runs only what its iteration writes."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.noting_sandbox import NotingSandbox

from agentforge.adapters.providers.mock import MockProvider
from agentforge.model.errors import ProviderUnusable
from agentforge.model.facts import GitLeft
from agentforge.model.layout import CONTROL, RunLayout
from agentforge.model.plan import Overrides, PipelineInfo, Plan, PlanSession, PlanSource, SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement
from agentforge.runtime.confinement import Confiner

COMMAND = Command(("agent",), {})
STAGE = "stage-00-plan"
MARK = "run/0/1/1/1@5"


PLAN = Plan(
    mode="pipeline",
    compiled_at=datetime(2026, 1, 1, tzinfo=UTC),
    source=PlanSource("flows/main.yaml", ""),
    session=PlanSession("s", datetime(2026, 1, 1, tzinfo=UTC)),
    pipeline=PipelineInfo("p", Overrides(), {}),
    dependencies={},
    nodes=(),
)
NOTING: Any = "noting"


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout.of(str(tmp_path), "s")


def confinement(
    project: Path,
    layout: RunLayout,
    *,
    writable: tuple[str, ...] = (),
    scope: str = "",
    command: Command = COMMAND,
) -> Confinement:
    """What the sandbox of the first attempt is asked for."""
    sandbox, here = NotingSandbox(), layout.iteration(f"{scope}/stage-00-plan" if scope else STAGE, 1)
    confiner = Confiner({"noting": sandbox}, str(project), layout, PLAN)
    choice = SandboxChoice(type=NOTING, writable=writable)
    place = here.attempt(1)
    confined = confiner.confine(command, choice, place, (here.root, "/progress.md"), mark=MARK, scope=scope)
    assert confined.argv == ("/usr/bin/env", "agent")
    ((within, mark),) = sandbox.confined
    assert mark == MARK
    assert confiner.cleanup(choice, None, MARK) == sandbox.cleanup(MARK)
    return within


def test_missing_folders_of_definitions_are_made_as_folders(tmp_path: Path, layout: RunLayout) -> None:
    within = confinement(tmp_path, layout)
    made = [str(tmp_path / name) for name in CONTROL]
    assert all(map(os.path.isdir, made))
    assert set(made) <= set(within.protected)


def test_of_all_runs_only_its_own_stages_are_visible(tmp_path: Path, layout: RunLayout) -> None:
    for name in ("stage-01-other", "parallel-02-both", "pipeline-03-inner", "payloads", "control", "trees"):
        (Path(layout.root) / name).mkdir(parents=True)
    (Path(layout.root) / "events.jsonl").write_text("")
    within = confinement(tmp_path, layout)
    attempt = layout.iteration(STAGE, 1).attempt(1).root
    assert within.workspace == str(tmp_path)
    assert within.hidden == (f"{tmp_path}/.claude/pipeline-runs", f"{tmp_path}/.agentforge-outbox")
    inside = [path for path in within.protected if path.startswith(f"{layout.root}/")]
    folders = ("parallel-02-both", "pipeline-03-inner", STAGE, "stage-01-other")
    assert sorted(inside) == sorted([*(f"{layout.root}/{name}" for name in folders), attempt])
    assert f"{os.path.dirname(layout.root)}/.gitignore" in within.protected
    assert within.writable == (layout.iteration(STAGE, 1).root, "/progress.md")
    assert Path(attempt).is_dir(), "only what is there can be protected"


def test_other_branches_are_hidden(tmp_path: Path, layout: RunLayout) -> None:
    within = confinement(tmp_path, layout, scope="parallel-00-both/providers/one")
    assert f"{layout.root}/parallel-00-both/providers" in within.hidden
    assert f"{layout.root}/parallel-00-both/providers/one" in within.protected


def test_what_decides_about_later_runs_is_protected(tmp_path: Path, layout: RunLayout) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/main.yaml").write_text("")
    names = (*CONTROL, ".git", "flows/main.yaml")
    assert {f"{tmp_path}/{name}" for name in names} <= set(confinement(tmp_path, layout).protected)
    assert all((tmp_path / name).exists() for name in names)


@pytest.mark.parametrize(
    ("named", "lifted"), [(".git", ".git"), (".claude", ".claude/stages"), ("flows", "flows/main.yaml")]
)
def test_a_stage_can_make_them_writable(tmp_path: Path, layout: RunLayout, named: str, lifted: str) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/main.yaml").write_text("")
    assert f"{tmp_path}/{lifted}" in confinement(tmp_path, layout).protected
    assert f"{tmp_path}/{lifted}" not in confinement(tmp_path, layout, writable=(named,)).protected


def test_naming_the_whole_project_makes_nothing_else_writable(tmp_path: Path, layout: RunLayout) -> None:
    assert confinement(tmp_path, layout, writable=(".",)).protected == confinement(tmp_path, layout).protected


def test_missing_folders_of_the_path_inside_the_project_are_made(tmp_path: Path, layout: RunLayout) -> None:
    project = tmp_path / "project"
    folders = [f"{project}/node_modules/.bin", f"{project}/../beside/bin", "/no/such folder", ""]
    command = Command(("agent",), {"PATH": os.pathsep.join(folders), "path": f"{project}/other"})
    (project / "bin").mkdir(parents=True)
    confinement(project, RunLayout.of(str(project), "s"), command=command)
    assert (project / "node_modules/.bin").is_dir()
    assert not (tmp_path / "beside").exists()
    assert not (project / "other").exists()
    record = project / ".claude/pipeline-runs/.placeholders"
    assert {"node_modules/.bin", "node_modules"} <= set(record.read_text().splitlines())
    assert "bin" not in record.read_text().splitlines()


def test_what_redirects_git_is_renamed_and_named(
    tmp_path: Path, layout: RunLayout, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("HEAD", "config"):
        (tmp_path / ".git").mkdir(exist_ok=True)
        (tmp_path / ".git" / name).write_text("ref: refs/heads/main\n" if name == "HEAD" else "")
    (tmp_path / ".git/objects").mkdir()
    (tmp_path / ".git/refs").mkdir()
    path = tmp_path / ".git/commondir"
    path.write_text("../elsewhere\n")
    with caplog.at_level("WARNING"):
        confinement(tmp_path, layout)
    assert not path.exists()
    assert Path(f"{path}.disabled").exists()
    assert f"{path} redirects git to another folder: renamed to {path}.disabled" in caplog.messages


@pytest.mark.parametrize("named", ["../beside", "inside", "."])
def test_of_a_writable_repository_what_git_executes_stays_protected(tmp_path: Path, named: str) -> None:
    """Also of one that isn't the project's: its user runs git there."""
    project = tmp_path / "project"
    for repository in (project, project / named):
        (repository / ".git/hooks").mkdir(parents=True, exist_ok=True)
        (repository / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (repository / ".git/config").write_text("")
    within = confinement(project, RunLayout.of(str(project), "s"), writable=(named,))
    place = os.path.normpath(project / named)
    assert {f"{place}/.git/hooks", f"{place}/.git/config"} <= set(within.protected)
    assert f"{project}/.git/config" in within.protected


def test_a_writable_folder_without_a_repository_gets_none(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "beside").mkdir()
    confinement(tmp_path / "project", RunLayout.of(str(tmp_path / "project"), "s"), writable=("../beside",))
    assert list((tmp_path / "beside").iterdir()) == []


def test_a_link_is_refused(tmp_path: Path, layout: RunLayout) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/stages").symlink_to("../there")
    with pytest.raises(ProviderUnusable, match=r"\.claude/stages, because it is a link") as refusal:
        confinement(tmp_path, layout)
    assert "add .claude/stages to `writable`" in refusal.value.hint


@pytest.mark.parametrize("choice", [None, SandboxChoice(type="none")])
def test_a_stage_without_a_sandbox_has_its_command_as_it_is(
    tmp_path: Path, layout: RunLayout, choice: SandboxChoice | None
) -> None:
    place = layout.iteration(STAGE, 1).attempt(1)
    confiner = Confiner({}, str(tmp_path), layout, PLAN)
    assert confiner.confine(COMMAND, choice, place, (), mark=MARK) is COMMAND
    assert confiner.cleanup(choice, None, MARK) == ()


class Cleaning(MockProvider):
    """Ends its agent by a program, or can't."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.problem = problem

    def cleanup(self, mark: str) -> tuple[str, ...]:
        if self.problem:
            raise ProviderUnusable(self.problem)
        return ("end", mark)


def test_provider_ends_what_works_outside_of_a_sandbox(
    tmp_path: Path, layout: RunLayout, caplog: pytest.LogCaptureFixture
) -> None:
    confiner = Confiner({}, str(tmp_path), layout, PLAN)
    assert confiner.cleanup(None, Cleaning(), MARK) == ("end", MARK)
    with caplog.at_level("WARNING"):
        assert confiner.cleanup(None, Cleaning("no docker"), MARK) == ()
    assert caplog.messages == ["can't clean up after the agent: no docker"]


def test_repository_that_an_agent_made_is_recorded_and_renamed(tmp_path: Path, layout: RunLayout) -> None:
    sandbox, choice = NotingSandbox(), SandboxChoice(type=NOTING)
    place = layout.iteration(STAGE, 1).attempt(1)
    confiner = Confiner(
        {"noting": sandbox}, str(tmp_path), layout, PLAN, environ={"PATH": os.environ["PATH"]}
    )
    confiner.confine(COMMAND, choice, place, (), mark=MARK)
    found: list[GitLeft] = []
    asyncio.run(confiner.settle(choice, place, found.append))
    assert found == []
    planted = tmp_path / "inner/.git"
    for name in ("hooks", "objects", "refs"):
        (planted / name).mkdir(parents=True)
    (planted / "HEAD").write_text("ref: refs/heads/main\n")
    (planted / "config").write_text('[core]\n\tfsmonitor = "touch here"\n')
    for ignored, report in ((None, found.append), (SandboxChoice(type="none"), found.append), (choice, None)):
        asyncio.run(confiner.settle(ignored, place, report))
    assert (found, planted.exists()) == ([], True)
    asyncio.run(confiner.settle(choice, place, found.append))
    assert [item.path for left in found for item in left.items] == ["inner/.git"]
    assert not planted.exists()
