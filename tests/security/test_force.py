"""`--force` replaces a run only while nothing else can drive it, and not on behalf of the run's own agent."""

import sys
from pathlib import Path

import pytest
from tests.surface.terminal import WRITE_RESULT, Project, wait_for

STOPPED_AT_RENAME = """
import os, sys, time
from pathlib import Path

here = Path(sys.argv[1])

def stopping(rename):
    def renamed(source, *arguments, **options):
        if os.path.basename(source) == "s":
            (here / "reached").touch()
            while not (here / "go").exists():
                time.sleep(0.01)
        return rename(source, *arguments, **options)
    return renamed

os.replace, os.rename = stopping(os.replace), stopping(os.rename)
from agentforge.cli.main import main
main(sys.argv[2:])
"""
"""The command line, stopped where it is about to rename the run `s`."""

ALONE = f"""\
mkdir busy 2>/dev/null || ! kill -0 "$(cat busy/pid)" 2>/dev/null || echo overlap >> "$EFFECTS"
echo $$ > busy/pid; echo ran >> "$EFFECTS"; {WRITE_RESULT}; rm -r busy"""
"""An agent that says if another one is running; one that was killed is not."""


@pytest.fixture
def paused(project: Project) -> Project:
    """A project with a run `s` that is paused after the first of two nodes."""
    project.env["EFFECTS"] = str(project.home / "effects")
    control = ".claude/pipeline-runs/s/control"
    pause = f'mkdir {control}; printf \'%s\' \'{{"action": "pause", "reason": "x"}}\' > {control}/1.json'
    file = project.pipeline(f"one={pause}; {ALONE}", f"two={ALONE}")
    done = project.call("run", "-p", file, "-s", "s")
    assert project.call("status", "s", "--json").json["status"] == "paused", done.err
    return project


def archived(project: Project) -> list[Path]:
    return sorted(project.run_dir("s").parent.glob("s.*"))


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("resume", "s"), 1, "already running"),
        (("recover", "s"), 0, ""),
        (("cancel", "s"), 0, ""),
    ],
)
def test_run_that_is_about_to_be_archived_cannot_be_continued(
    paused: Project, command: tuple[str, ...], code: int, said: str
) -> None:
    log = (paused.run_dir("s") / "events.jsonl").read_bytes()
    file = paused.pipeline(f"one={ALONE}")
    forced = ("run", "-p", file, "-s", "s", "--force")
    with paused.started_program(sys.executable, "-c", STOPPED_AT_RENAME, str(paused.home), *forced) as run:
        wait_for((paused.home / "reached").exists, "the archiving of the run")
        other = paused.call(*command)
        (paused.home / "go").touch()
        done = run.end()
    assert other.code == code, other
    assert said in other.err
    assert done.code == 0, done.err
    assert [(folder / "events.jsonl").read_bytes() for folder in archived(paused)] == [log]
    assert paused.types("s")[-1] == "session_complete"
    assert paused.types("s").count("session_start") == 1
    assert (paused.home / "effects").read_text().splitlines() == ["ran", "ran"]


def test_several_force_at_once_never_work_at_the_same_time(paused: Project) -> None:
    file = paused.pipeline(f"one*3={ALONE}")
    call = ("run", "-p", file, "-s", "s", "--force")
    with paused.started(*call) as a, paused.started(*call) as b, paused.started(*call) as c:
        results = [run.end() for run in (a, b, c)]
    assert all("Traceback" not in done.err for done in results)
    assert "overlap" not in (paused.home / "effects").read_text()
    paused.call("recover")
    for folder in (*archived(paused), paused.run_dir("s")):
        assert paused.call("log", "verify", folder.name).code == 0
        starts = paused.types(folder.name).count("session_start")
        assert starts == 1


@pytest.fixture
def interrupted(project: Project) -> Project:
    """A project with a run `s` whose engine was killed while its agent works."""
    project.env["EFFECTS"] = str(project.home / "effects")
    file = project.pipeline(f"one=touch up; until [ -e go ]; do sleep 0.02; done; {ALONE}", f"two={ALONE}")
    with project.started("run", "-p", file, "-s", "s") as engine:
        wait_for((project.root / "up").exists, "the agent")
        engine.process.kill()
        engine.process.wait()
    return project


def test_force_recover_resume_and_cancel_at_once_never_work_at_the_same_time(interrupted: Project) -> None:
    file = interrupted.pipeline(f"one*2={ALONE}")
    (interrupted.root / "go").touch()
    with (
        interrupted.started("recover", "s") as a,
        interrupted.started("run", "-p", file, "-s", "s", "--force") as b,
        interrupted.started("cancel", "s") as c,
        interrupted.started("resume", "s") as d,
    ):
        results = [run.end() for run in (a, b, c, d)]
    assert [done.err for done in results if "Traceback" in done.err] == []
    assert "overlap" not in (interrupted.home / "effects").read_text()
    for folder in (*archived(interrupted), interrupted.run_dir("s")):
        assert interrupted.call("log", "verify", folder.name).code == 0
        assert interrupted.types(folder.name).count("session_start") == 1


NO_MARK = 'env -i PATH="$PATH" HOME="$HOME" '
"""The mark is missing from the environment of the command, but not from that of its ancestors."""


@pytest.mark.parametrize(
    "command",
    [
        "agentforge resume s --force",
        "agentforge run -p p.yaml -s s --force",
        f"{NO_MARK} agentforge cancel s",
    ],
)
def test_agent_can_neither_stop_nor_replace_its_own_run(project: Project, command: str) -> None:
    project.env["PATH"] = f"{Path(sys.executable).parent}:{project.env['PATH']}"
    file = project.pipeline(f"one={command} > said 2>&1; echo $? >> said; {WRITE_RESULT}")
    done = project.call("run", "-p", file, "-s", "s")
    said = (project.root / "said").read_text()
    assert done.code == 0, done.err + said
    assert "and this process was started by an agent" in said
    assert said.splitlines()[-1] == "1"
    assert project.types("s").count("attempt_start") == 1
    assert archived(project) == []
