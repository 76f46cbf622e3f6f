"""Links that an agent or a repository leaves: the engine neither writes nor reads through them."""

from pathlib import Path

import pytest
from tests.sampling import one_in
from tests.surface.terminal import WRITE_RESULT, Project

HERE = 'cd "$(dirname "$AGENTFORGE_RESULT")"'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    found = Project(tmp_path)
    (found.home / ".bashrc").write_text("mine\n")
    return found


def run(project: Project, agent: str, extra: str = "", *options: str) -> int:
    (project.root / "agent.sh").write_text(agent)
    file = project.pipeline("plan*2=sh agent.sh", extra=f"    retry: {{max_attempts: 1}}\n{extra}")
    return project.call("run", "-p", file, "-s", "s", *options).code


NAMES = (
    "output.md",
    "result.json",
    "status.json",
    "attempts.jsonl",
    "error.json",
    "error.json.tmp",
    "output.md.tmp",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", one_in(2, ["exit 0", "exit 1"]))
def test_link_in_the_iteration_is_not_written_through(project: Project, name: str, ending: str) -> None:
    run(project, f"{HERE}\nln -sf {project.home}/.bashrc {name}\necho evil\n{ending}\n")
    assert (project.home / ".bashrc").read_text() == "mine\n"


@pytest.mark.parametrize("place", ["locks/s.lock", "locks/s.lock.tmp", "loop-completions.json"])
def test_link_among_the_engines_files_is_not_written_through(project: Project, place: str) -> None:
    (project.root / ".claude" / "locks").mkdir(parents=True)
    (project.root / ".claude" / place).symlink_to(project.home / ".bashrc")
    run(project, WRITE_RESULT)
    assert (project.home / ".bashrc").read_text() == "mine\n"


@pytest.mark.parametrize("linked", [".claude", ".claude/pipeline-runs", ".claude/locks"])
def test_linked_folder_of_the_engine_is_refused(project: Project, linked: str) -> None:
    outside = project.home / "outside"
    outside.mkdir()
    (project.root / linked).parent.mkdir(exist_ok=True)
    (project.root / linked).symlink_to(outside)
    assert run(project, WRITE_RESULT) != 0
    assert list(outside.iterdir()) == []


def test_output_path_does_not_leave_the_workspace_by_a_link(project: Project) -> None:
    agent = f"mkdir -p docs; ln -sf {project.home}/.bashrc docs/report.md; echo evil; {WRITE_RESULT}"
    assert run(project, agent, "    output_path: docs/report.md\n") != 0
    assert (project.home / ".bashrc").read_text() == "mine\n"
    [error, *_] = [event for event in project.events("s") if event["type"] == "error"]
    assert "leads outside the workspace" in error["data"]["message"]


@pytest.mark.parametrize(
    "guarded", [".git/hooks/post-commit", ".claude/stages/x/prompt.md", ".agentforge/x.yaml"]
)
def test_output_path_does_not_reach_guarded_files_by_a_link(project: Project, guarded: str) -> None:
    (project.root / guarded).parent.mkdir(parents=True)
    agent = f"mkdir -p docs; ln -sf ../{guarded} docs/report.md; echo evil; {WRITE_RESULT}"
    assert run(project, agent, "    output_path: docs/report.md\n") != 0
    assert not (project.root / guarded).exists()


def test_output_path_that_the_definition_puts_below_claude(project: Project) -> None:
    assert run(project, f"echo said; {WRITE_RESULT}", "    output_path: .claude/plans/new/report.md\n") == 0
    assert (project.root / ".claude" / "plans" / "new" / "report.md").read_text() == "said\n"


def test_output_path_through_a_link_that_stays_inside(project: Project) -> None:
    (project.root / "real" / "docs").mkdir(parents=True)
    (project.root / "docs").symlink_to("real/docs")
    assert run(project, f"echo said; {WRITE_RESULT}", "    output_path: docs/sub/report.md\n") == 0
    assert (project.root / "real" / "docs" / "sub" / "report.md").read_text() == "said\n"


def test_project_that_is_reached_through_a_link(project: Project) -> None:
    link = project.root.parent / "link"
    link.symlink_to(project.root)
    file = project.pipeline(f"plan=echo said; {WRITE_RESULT}", extra="    output_path: out/report.md\n")
    done = project.call("-C", str(link), "run", "-p", f"{link}/{file}", "-s", "s")
    assert done.code == 0, done.err
    assert (project.root / "out" / "report.md").read_text() == "said\n"
    assert project.call("-C", str(link), "status", "s").code == 0
    project.stage("mine")
    providers = project.root / ".agentforge" / "providers"
    providers.mkdir(parents=True)
    (providers / "careful.yaml").write_text("like: claude\n")
    assert "mine" in project.call("stages", "-C", str(link)).out
    assert "careful" in project.call("providers", "-C", str(link)).out


def test_folders_of_a_run_are_for_their_owner(project: Project) -> None:
    assert run(project, WRITE_RESULT) == 0
    assert project.run_dir("s").stat().st_mode & 0o777 == 0o700
