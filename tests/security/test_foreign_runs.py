"""A run folder that came with a repository executes nothing until a person trusts it."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from signal import SIGKILL

import pytest
from tests.surface.screen import on_a_terminal
from tests.surface.terminal import WRITE_RESULT, Project, wait_for

CANARY = "canary-5fd1c0ffee"
PLANTED = f'env > "$CANARY_FILE"; {WRITE_RESULT}'
"""What the log of the cloned run executes."""


def git(folder: Path, *arguments: str) -> None:
    options = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True)


class Clone:
    """A clone of a repository that holds a run of another user, with an environment full of tokens."""

    def __init__(self, project: Project, tmp_path: Path) -> None:
        self.executed = project.temporary / "executed"
        others = tmp_path / "others"
        others.mkdir()
        self.theirs = Project(others)
        self.mine = project
        secrets = dict.fromkeys(("GITHUB_TOKEN", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY"), CANARY)
        project.env |= {**secrets, "CANARY_FILE": str(self.executed)}
        self.theirs.env |= {"CANARY_FILE": str(tmp_path / "theirs")}

    def interrupt(self, session: str, *options: str) -> None:
        """Their run, interrupted while its agent works, on the disk as it was then."""
        (self.theirs.root / "hold").touch()
        shell = f"touch up; while [ -e hold ]; do sleep 0.02; done; {PLANTED}"
        file = self.theirs.pipeline(f"plan*2={shell}")
        with self.theirs.started("run", "-p", file, "-s", session, *options) as engine:
            wait_for((self.theirs.root / "up").exists, "the agent")
            wait_for(lambda: "attempt_start" in self.theirs.types(session), "the intent")
            engine.signal(SIGKILL)
            engine.end()
        self.theirs.end_agents()
        wait_for(lambda: not self._works(), "the end of the agent")
        (self.theirs.root / "hold").unlink()
        (self.theirs.root / "up").unlink()

    def _works(self) -> bool:
        return bool(list(self.theirs.root.rglob("claim"))) and not list(self.theirs.root.rglob("exit.json"))

    def complete(self, session: str, *options: str) -> None:
        file = self.theirs.pipeline(f"plan={PLANTED}")
        done = self.theirs.call("run", "-p", file, "-s", session, *options)
        assert done.code == 0, done.err

    def clone(self) -> None:
        git(self.theirs.root, "init", "-q")
        git(self.theirs.root, "add", "-A", "-f")
        git(self.theirs.root, "commit", "-q", "-m", "runs")
        shutil.rmtree(self.mine.root)
        git(self.mine.home, "clone", "-q", str(self.theirs.root), str(self.mine.root))

    def files(self) -> dict[str, bytes]:
        """The cloned runs and locks, as they are now."""
        folders = (self.mine.root / ".claude" / name for name in ("pipeline-runs", "locks"))
        paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in paths}


@pytest.fixture
def clone(project: Project, tmp_path: Path) -> Clone:
    return Clone(project, tmp_path)


COMMANDS = {
    "resume": ("resume", "nightly"),
    "cancel": ("cancel", "nightly"),
    "recover by name": ("recover", "nightly"),
    "run --force": ("run", "-p", "p.yaml", "-s", "nightly", "--force"),
    "pipeline --resume": ("pipeline", "p.yaml", "nightly", "--resume", "--foreground"),
    "pipeline --force": ("pipeline", "p.yaml", "nightly", "--force", "--foreground"),
    "resume --force": ("resume", "nightly", "--force", "--accept-damage"),
}


def test_cloned_interrupted_run_executes_nothing_and_stays_as_it_is(clone: Clone) -> None:
    clone.interrupt("nightly")
    clone.clone()
    before = clone.files()
    for name, command in COMMANDS.items():
        done = clone.mine.call(*command)
        assert done.code == 1, (name, done)
        assert "was not started by you on this machine" in done.err, name
        assert "It would execute:" in done.err, name
        assert "plan: command" in done.err, name
        assert "CANARY_FILE" in done.err, name
        assert "--trust" in done.err, name
        assert CANARY not in done.out + done.err, name
        assert not clone.executed.exists(), name
        assert clone.files() == before, name


def test_recover_skips_cloned_runs_and_says_so(clone: Clone) -> None:
    clone.interrupt("nightly")
    clone.clone()
    before = clone.files()
    done = clone.mine.call("recover")
    assert done.code == 0
    assert "Nothing to recover: no other run of this project is interrupted." in done.out
    assert "Skipped session 'nightly', which was not started by you on this machine." in done.err
    assert "`agentforge status nightly`" in done.err
    assert "`agentforge resume --trust nightly`" in done.err
    assert clone.mine.call("recover", "--json").json["skipped"] == ["nightly"]
    assert not clone.executed.exists()
    assert clone.files() == before


def test_own_runs_are_recovered_beside_a_cloned_one(clone: Clone) -> None:
    clone.interrupt("nightly")
    clone.clone()
    mine = clone.mine
    shell = f"touch mine-up; while [ ! -e go ]; do sleep 0.02; done; {WRITE_RESULT}"
    file = mine.pipeline(f"plan={shell}", name="mine.yaml")
    with mine.started("run", "-p", file, "-s", "mine") as engine:
        wait_for((mine.root / "mine-up").exists, "the agent")
        engine.signal(SIGKILL)
        engine.end()
    (mine.root / "go").touch()
    done = mine.call("recover")
    assert done.code == 0, done.err
    assert "session_complete" in mine.types("mine")
    assert "Skipped session 'nightly'" in done.err
    assert not clone.executed.exists()


def test_error_as_json_has_a_code_and_what_would_be_executed(clone: Clone) -> None:
    clone.interrupt("nightly")
    clone.clone()
    done = clone.mine.call("resume", "nightly", "--json")
    assert done.code == 1
    error = done.json["error"]
    assert error["code"] == "untrusted_run"
    (executes,) = error["executes"]
    assert (executes["stage"], executes["provider"]) == ("plan", "command")
    assert "CANARY_FILE" in executes["settings"]["run"]


def test_trusted_run_is_resumed_without_asking_again(clone: Clone) -> None:
    clone.interrupt("nightly")
    clone.clone()
    done = clone.mine.call("resume", "nightly", "--trust")
    assert done.code == 0, done.err
    assert clone.executed.exists()
    assert clone.mine.types("nightly")[-1] == "session_complete"
    again = clone.mine.call("run", "-p", "p.yaml", "-s", "nightly", "--force")
    assert again.code == 0, again.err


@pytest.mark.parametrize("command", ["cancel", "run --force"])
def test_trusted_run_is_cancelled_or_replaced(clone: Clone, command: str) -> None:
    clone.interrupt("nightly")
    clone.clone()
    done = clone.mine.call(*COMMANDS[command], "--trust")
    assert done.code == 0, done.err


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_person_on_a_terminal_is_asked(clone: Clone, answer: str, code: int) -> None:
    clone.interrupt("nightly")
    clone.clone()
    with on_a_terminal(clone.mine, "resume", "nightly") as screen:
        screen.until("Trust it and continue? [y/N]")
        assert "It would execute:" in screen.text
        screen.type(f"{answer}\n")
        assert screen.end() == code, screen.text
    assert clone.executed.exists() == (answer == "y")


def test_recording_of_a_cloned_run_is_not_replayed(clone: Clone) -> None:
    clone.complete("nightly", "--record")
    clone.clone()
    done = clone.mine.call("replay", "nightly")
    assert done.code == 1
    assert "was not started by you on this machine" in done.err
    assert not clone.mine.run_dir("nightly-replay").exists()
    assert clone.mine.call("replay", "nightly", "--check").code == 0, "a check executes nothing"
    trusted = clone.mine.call("replay", "nightly", "--trust")
    assert trusted.code == 0, trusted.err


def test_own_pipeline_beside_cloned_runs_with_dead_locks_leaves_them_alone(clone: Clone) -> None:
    """Links where the engine's files would be must not be written through either."""
    clone.complete("f")
    run = clone.theirs.run_dir("f")
    log = (run / "events.jsonl").read_text().splitlines(keepends=True)
    (run / "events.jsonl").write_text("".join(log))
    victim = clone.mine.home / ".bashrc"
    victim.write_text("# mine\n")
    for name in ("state.json.tmp", "state.json"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(victim)
    locks = clone.theirs.root / ".claude" / "locks"
    locks.mkdir(exist_ok=True)
    dead = {"session": "f", "pid": 2**22 - 1, "started_at": "2026-01-01T00:00:00Z"}
    (locks / "f.lock").write_text(json.dumps(dead))
    clone.clone()
    before = clone.files()
    file = clone.mine.pipeline(f"plan={WRITE_RESULT}", name="ok.yaml")
    assert clone.mine.call("run", "-p", file, "-s", "mine").code == 0
    assert clone.mine.call("recover").code == 0
    assert victim.read_text() == "# mine\n"
    after = clone.files()
    assert {path: after.get(path) for path in before} == before


def test_looking_at_a_cloned_run_needs_no_trust(clone: Clone) -> None:
    clone.interrupt("nightly")
    clone.clone()
    before = clone.files()
    for command in (("list",), ("status", "nightly"), ("tail", "nightly", "--no-follow"), ("log", "verify")):
        done = clone.mine.call(*command) if command[0] != "log" else clone.mine.call(*command, "nightly")
        assert "--trust" not in done.err
    assert clone.files() == before
    assert not clone.executed.exists()


# -- moved and copied projects


def interrupted(project: Project, session: str = "mine") -> None:
    shell = f"touch up; while [ ! -e go ]; do sleep 0.02; done; {WRITE_RESULT}"
    with project.started("run", "-p", project.pipeline(f"plan={shell}"), "-s", session) as engine:
        wait_for((project.root / "up").exists, "the agent")
        engine.signal(SIGKILL)
        engine.end()
    (project.root / "go").touch()
    wait_for(lambda: list(project.root.rglob("exit.json")), "the end of the agent")


def test_moved_project_is_recognised_and_recovered(project: Project, tmp_path: Path) -> None:
    interrupted(project)
    project.root = project.root.rename(tmp_path / "moved")
    done = project.call("recover")
    assert done.code == 0, done.err
    assert "was moved here from" in done.err
    assert project.types("mine")[-1] == "session_complete"
    again = project.call("run", "-p", "p.yaml", "-s", "mine", "--force")
    assert again.code == 0
    assert "was moved here from" not in again.err, "said once"


def test_moved_project_with_a_link_in_its_old_place_is_recognised(project: Project, tmp_path: Path) -> None:
    interrupted(project)
    old = project.root
    project.root = old.rename(tmp_path / "moved")
    old.symlink_to(project.root)
    project.root = old
    assert project.call("recover").code == 0
    assert project.types("mine")[-1] == "session_complete"


def test_copied_project_asks_once(project: Project, tmp_path: Path) -> None:
    interrupted(project)
    original = project.root
    project.root = tmp_path / "copy"
    shutil.copytree(original, project.root, symlinks=True)
    done = project.call("resume", "mine")
    assert done.code == 1
    assert f"is a copy of the run in {original}" in done.err
    assert project.call("resume", "mine", "--trust").code == 0
    assert project.call("run", "-p", "p.yaml", "-s", "mine", "--force").code == 0
    project.root = original
    assert project.call("recover").code == 0, "the original is still known"
    assert project.types("mine")[-1] == "session_complete"


def test_log_that_was_replaced_by_a_longer_one_is_not_driven(project: Project) -> None:
    interrupted(project)
    log = project.run_dir("mine") / "events.jsonl"
    longer = log.read_bytes() + b'{"seq":99}\n'
    # Keep the old file: a freed inode could be given to the new one.
    log.rename(log.with_name("old"))
    log.write_bytes(longer)
    done = project.call("resume", "mine")
    assert done.code == 1
    assert "its log was replaced since" in done.err


@pytest.mark.parametrize("env", [{"HOME": ""}, {"HOME": "relative"}, {"XDG_STATE_HOME": "/dev/null/x"}])
def test_run_without_a_state_folder_says_what_follows(project: Project, env: dict[str, str]) -> None:
    fails = project.pipeline("plan=exit 3", extra="    retry: {max_attempts: 1}\n")
    done = project.call("run", "-p", fails, "-s", "mine", env=env)
    assert done.code == 1
    assert "can't record that this run was started here" in done.err
    refused = project.call("resume", "mine", env=env)
    assert "was not started by you on this machine" in refused.err
    assert "session_resumed" not in project.types("mine")
    project.call("resume", "mine", "--trust", env=env)
    assert "session_resume" in " ".join(project.types("mine"))


def test_state_folder_inside_the_project_proves_nothing(project: Project) -> None:
    fails = project.pipeline("plan=exit 3", extra="    retry: {max_attempts: 1}\n")
    done = project.call("run", "-p", fails, "-s", "mine", env={"HOME": str(project.root)})
    assert "is inside the project" in done.err
    assert not (project.root / ".local").exists()


def test_state_folder_is_private(project: Project) -> None:
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "mine").code == 0
    folder = project.home / ".local" / "state" / "agentforge"
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert len(list((folder / "runs").iterdir())) == 1
