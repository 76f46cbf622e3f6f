"""A replay runs no command and overwrites no work unless the user allows it, and never writes to git, to
agents' settings or to the engine's folders."""

import json
import shutil
import subprocess
from typing import Any

import pytest
from tests.sampling import one_in
from tests.security.confined import need_bwrap
from tests.security.trapped_repository import ENVIRON
from tests.surface.terminal import WRITE_RESULT, Project

HEADER = {"format": "agentforge-cassette", "version": 1}
PIPELINE = "name: demo\nnodes:\n  - {id: plan, prompt: do it, provider: claude, runs: 1}\n"
RESULT = {"do": "result", "value": {"summary": "did it"}}


def cassette(project: Project, *steps: dict[str, Any]) -> str:
    exchange = {"stage": "plan", "iteration": 1, "steps": [*steps, RESULT]}
    path = project.root.parent / "kept.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (HEADER, exchange)))
    (project.root / "p.yaml").write_text(PIPELINE)
    return str(path)


def git(project: Project, *words: str) -> None:
    subprocess.run(["git", *words], cwd=project.root, env=ENVIRON, check=True, capture_output=True)


def test_commands_need_permission(project: Project) -> None:
    kept = cassette(project, {"do": "run", "argv": ["touch", "made by a command"]})
    refused = project.call("replay", kept, "-p", "p.yaml")
    assert refused.code == 2
    assert f"{kept} runs commands: `touch 'made by a command'`" in refused.err
    assert "--allow-commands" in refused.err
    assert not (project.root / "made by a command").exists()
    assert not project.run_dir("kept-replay").exists()
    allowed = project.call("replay", kept, "-p", "p.yaml", "--allow-commands")
    assert allowed.code == 0, allowed.err
    assert (project.root / "made by a command").exists()


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        "sub/.git/hooks/pre-commit",
        ".GIT/config",
        ".git. /config",
        ".claude/pipeline-runs/other/events.jsonl",
        ".claude/settings.json",
        ".Agentforge/providers/claude.yaml",
    ],
)
def test_nothing_is_written_below_a_protected_folder(project: Project, path: str) -> None:
    kept = cassette(project, {"do": "write", "path": path, "text": "x"})
    done = project.call("replay", kept, "-p", "p.yaml", "--overwrite", "--allow-commands")
    assert done.code == 2
    assert "a replay must not write below" in done.err
    assert not (project.root / path).exists()


def test_a_link_to_a_protected_folder_is_not_followed(project: Project) -> None:
    git(project, "init", "-q")
    (project.root / "link").symlink_to(".git/hooks")
    kept = cassette(project, {"do": "write", "path": "link/pre-commit", "text": "x"})
    done = project.call("replay", kept, "-p", "p.yaml")
    assert done.code == 1
    assert "a replay must not write below .git" in done.out
    assert not (project.root / ".git" / "hooks" / "pre-commit").exists()


WRITE = {"do": "write", "path": "work.txt", "text": "recorded"}


@pytest.mark.parametrize(
    "step",
    [
        WRITE,
        {"do": "append", "path": "work.txt", "text": "more"},
        {"do": "edit", "path": "work.txt", "old": "mine", "new": "theirs"},
        {"do": "delete", "path": "work.txt"},
    ],
    ids=lambda step: step["do"],
)
@pytest.mark.parametrize("state", one_in(2, ["no repository", "untracked", "ignored", "staged", "changed"]))
def test_work_that_is_not_committed_is_kept(project: Project, step: dict[str, Any], state: str) -> None:
    work = project.root / "work.txt"
    kept = cassette(project, step)
    if state != "no repository":
        git(project, "init", "-q")
        git(project, "commit", "-q", "--allow-empty", "-m", "empty")
    if state == "ignored":
        (project.root / ".gitignore").write_text("*.txt\n")
    if state in ("changed", "staged"):
        work.write_text("before")
        git(project, "add", ".")
        git(project, "commit", "-q", "-m", "before")
    work.write_text("mine")
    if state == "staged":
        git(project, "add", ".")
    refused = project.call("replay", kept, "-p", "p.yaml")
    assert refused.code == 2
    assert "the replay would overwrite work that is not committed: work.txt" in refused.err
    assert "--overwrite" in refused.err
    assert work.read_text() == "mine"
    allowed = project.call("replay", kept, "-p", "p.yaml", "--overwrite")
    assert allowed.code == 0, allowed.err
    assert not work.exists() or work.read_text() != "mine"


def test_committed_and_recorded_content_is_replaced(project: Project) -> None:
    """In a clean checkout, and again after a replay."""
    git(project, "init", "-q")
    (project.root / "work.txt").write_text("committed")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "all")
    kept = cassette(project, WRITE, {"do": "write", "path": "new.txt", "base64": "bmV3"})
    assert project.call("replay", kept, "-p", "p.yaml").code == 0
    assert (project.root / "work.txt").read_text() == "recorded"
    assert project.call("replay", kept, "-p", "p.yaml", "-s", "again").code == 0


def test_an_output_path_with_uncommitted_work_is_kept(project: Project) -> None:
    kept = cassette(project, {"do": "say", "text": "recorded\n"})
    report = project.root / "docs" / "report.md"
    report.parent.mkdir()
    (project.root / "p.yaml").write_text(PIPELINE.replace("runs: 1", "runs: 1, output_path: docs/report.md"))
    report.write_text("mine")
    assert project.call("replay", kept, "-p", "p.yaml").code == 0
    assert report.read_text() == "mine"
    report.unlink()
    assert project.call("replay", kept, "-p", "p.yaml", "-s", "again").code == 0
    assert report.read_text() == "recorded\n"


def test_a_replay_plays_in_the_sandbox_of_its_stage(project: Project) -> None:
    need_bwrap()
    outside = project.home / "outside"
    code = f"echo inside > inside; echo outside > '{outside}'"
    kept = cassette(project, {"do": "run", "argv": ["sh", "-c", code]}, WRITE)
    (project.root / "p.yaml").write_text(
        "name: demo\nnodes:\n  - {id: plan, prompt: do it, provider: claude, runs: 1, "
        "sandbox: {type: bwrap, network: off}}\n"
    )
    done = project.call("replay", kept, "-p", "p.yaml", "--allow-commands")
    assert done.code == 0, done.err
    assert (project.root / "inside").exists()
    assert (project.root / "work.txt").read_text() == "recorded"
    assert not outside.exists()


def test_a_replay_is_refused_without_the_sandbox_of_its_stage(project: Project) -> None:
    kept = cassette(project, WRITE)
    stage = "name: demo\nnodes:\n  - {id: plan, prompt: do it, provider: claude, runs: 1, sandbox: %s}\n"
    (project.root / "p.yaml").write_text(stage % "{type: docker, image: any}")
    done = project.call("replay", kept, "-p", "p.yaml")
    assert done.code != 0
    assert "stage 'plan' can't be replayed in a container: its image lacks the replay program" in done.err
    (project.root / "p.yaml").write_text(stage % "bwrap")
    (project.home / "bin").mkdir()
    done = project.call("replay", kept, "-p", "p.yaml", env={"PATH": str(project.home / "bin")})
    assert done.code != 0
    assert "bwrap" in done.err
    assert not (project.root / "work.txt").exists()


def test_a_check_runs_and_writes_nothing(project: Project) -> None:
    file = project.pipeline(f"plan=echo one > made.txt; {WRITE_RESULT}")
    assert project.call("run", "-p", file, "-s", "auth", "--record").code == 0
    (project.root / "made.txt").write_text("mine")
    path = project.run_dir("auth") / "cassette.jsonl"
    header, exchange = path.read_text().splitlines()
    planted = json.loads(exchange)
    planted["steps"].insert(0, {"do": "run", "argv": ["touch", "struck"]})
    path.write_text(f"{header}\n{json.dumps(planted)}\n")
    kept = shutil.copy(path, project.root.parent / "kept.jsonl")
    done = project.call("replay", str(kept), "--check")
    assert done.code == 0, done.err
    assert not (project.root / "struck").exists()
    assert (project.root / "made.txt").read_text() == "mine"


def test_a_step_that_an_agent_plants_is_not_recorded(project: Project) -> None:
    """Wherever an engine could take a drafted exchange from."""
    planted = {
        "stage": "plan",
        "iteration": 1,
        "attempt": 1,
        "kind": "work",
        "node": "stage-plan",
        "steps": [{"do": "run", "argv": ["touch", "struck"]}],
    }
    (project.root / "planted").write_text(json.dumps(planted) + "\n")
    plant = (
        'here=$(dirname "$AGENTFORGE_RESULT"); for n in 1 2 3; do mkdir -p "$here/attempt-$n"; '
        'cp planted "$here/attempt-$n/exchange.json"; done; cp planted "$here/exchange.json"; '
    )
    file = project.pipeline(f"plan*2={plant}{WRITE_RESULT}")
    done = project.call("run", "-p", file, "-s", "auth", "--record")
    assert done.code == 0, done.err
    kept = (project.run_dir("auth") / "cassette.jsonl").read_text()
    assert '"do":"run"' not in kept
    assert len(kept.splitlines()) == 3


def test_changes_below_protected_folders_are_noted_instead_of_recorded(project: Project) -> None:
    make = "mkdir -p .claude/stages sub/.git; touch .claude/stages/x sub/.git/config made"
    file = project.pipeline(f"plan={make}; {WRITE_RESULT}")
    assert project.call("run", "-p", file, "-s", "auth", "--record").code == 0
    _, exchange = (project.run_dir("auth") / "cassette.jsonl").read_text().splitlines()
    recorded = json.loads(exchange)
    assert [step["path"] for step in recorded["steps"] if step["do"] == "write"] == ["made"]
    assert recorded["notes"] == [
        "'.claude/stages/x' is not recorded: a replay must not write below .claude",
        "'sub/.git/config' is not recorded: a replay must not write below .git",
    ]
    (project.root / "made").unlink()
    assert project.call("replay", "auth").code == 0
