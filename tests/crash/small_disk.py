"""A whole run on a small disk that fills up or becomes read-only; runs in a separate mount namespace:
`unshare -rm python -m tests.crash.small_disk full|checked|readonly FOLDER [PAGES]`."""

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from .case import CrashRun, Cut
from .checks import final_state, violations
from .scenarios import SCENARIOS, SESSION, Scenario

CHECK = "1/1/check/test"
PLAIN, CHECKED = SCENARIOS["plain"], SCENARIOS["checked"]
# What the check prints is feedback, so that its outcome and the transition are longer than a page.
LONG = replace(CHECKED, agent={**CHECKED.agent, "AGENT_TALKS": CHECK})
PLAYED = {"full": PLAIN, "checked": LONG, "readonly": PLAIN}
FILLED_BY = {"plain": "0/2", "checked": CHECK}
BEGIN = PLAIN.command
SIZE = "2m"
PAGE = 4096


def uninterrupted(scenario: Scenario) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        return final_state(CrashRun(Path(folder) / "run", scenario).play(()))


def said(run: CrashRun) -> str:
    return (run.story.base.parent / f"engine-{run.turns}.txt").read_text()


def full(run: CrashRun, pages: int) -> None:
    """The agent of the second iteration, or the failing check, leaves room for some pages; then the disk is
    full for the engine."""
    ballast, scenario = run.story.base / "ballast", run.story.scenario
    run.also |= {"AGENT_FILLS": FILLED_BY[scenario.name], "AGENT_BALLAST": str(ballast)}
    run.also["AGENT_LEAVES"] = str(pages * PAGE)
    run.turn(scenario.command)
    assert run.story.status() == "running", run.story.status()
    message = said(run)
    assert "No space left on device" in message or "bytes were written" in message, message
    sys.stdout.write(next(line for line in message.splitlines() if line.startswith("Error")) + "\n")
    ballast.unlink()
    del run.also["AGENT_FILLS"]


def checked(run: CrashRun, pages: int) -> None:
    """The outcome, the verdict and the transition are written together. None is recorded: the run is at the
    check."""
    full(run, pages)
    assert run.story.events()[-1]["type"] == "check_prepared"


def readonly(run: CrashRun, _: int) -> None:
    """The disk becomes read-only while no engine drives the run."""
    run.turn(BEGIN, Cut("agent", "note", 4, "after", "engine+supervisor+agent"))
    remount = ["mount", "-o", "remount,ro", str(run.story.base)]
    until = time.monotonic() + 60
    while subprocess.run(remount, check=False, stderr=subprocess.DEVNULL).returncode:
        assert time.monotonic() < until, "a process is still writing"  # Killed processes end a little later.
        time.sleep(0.05)
    before = run.story.log.read_bytes()
    for command in (("recover", SESSION), ("resume", SESSION), (*BEGIN, "--force")):
        engine = run.start("other", command, run.environment(1))
        assert engine.wait(timeout=60) == 1, command
        assert run.story.log.read_bytes() == before
    message = (run.story.base.parent / f"other-{run.turns}.txt").read_text()
    assert message.count("Read-only file system") == 3, message
    assert "Traceback" not in message, message
    sys.stdout.write(next(line for line in message.splitlines() if line.startswith("Error")) + "\n")
    subprocess.run(["mount", "-o", "remount,rw", str(run.story.base)], check=True)


def main(kind: str, folder: str, pages: str = "0") -> None:
    scenario = PLAYED[kind]
    expected = uninterrupted(scenario)
    base = Path(folder) / "small"
    base.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(base)], check=True)
    run = CrashRun(base, scenario, output_dir=Path(folder))
    {"full": full, "checked": checked, "readonly": readonly}[kind](run, int(pages))
    found = violations(run.play(()), expected)
    assert not found, found


if __name__ == "__main__":
    main(*sys.argv[1:])
