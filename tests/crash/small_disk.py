"""A whole run on a small disk that fills up or becomes read-only; runs in a separate mount namespace:
`unshare -rm python -m tests.crash.small_disk full|readonly FOLDER [PAGES]`."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .case import CrashRun, Cut
from .checks import final_state, violations
from .scenarios import SCENARIOS, SESSION

BEGIN = SCENARIOS["plain"].command
SIZE = "2m"
PAGE = 4096


def uninterrupted() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        return final_state(CrashRun(Path(folder) / "run", SCENARIOS["plain"]).play(()))


def said(run: CrashRun) -> str:
    return (run.story.base.parent / f"engine-{run.turns}.txt").read_text()


def full(run: CrashRun, pages: int) -> None:
    """The agent of the second iteration leaves room for some pages; then the disk is full for the engine."""
    ballast = run.story.base / "ballast"
    run.also |= {"AGENT_FILLS": "0/2", "AGENT_BALLAST": str(ballast), "AGENT_LEAVES": str(pages * PAGE)}
    run.turn(BEGIN)
    assert run.story.status() == "running", run.story.status()
    message = said(run)
    assert "No space left on device" in message or "bytes were written" in message, message
    sys.stdout.write(next(line for line in message.splitlines() if line.startswith("Error")) + "\n")
    ballast.unlink()
    del run.also["AGENT_FILLS"]


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
    expected = uninterrupted()
    base = Path(folder) / "small"
    base.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(base)], check=True)
    run = CrashRun(base, SCENARIOS["plain"], output_dir=Path(folder))
    {"full": full, "readonly": readonly}[kind](run, int(pages))
    found = violations(run.play(()), expected)
    assert not found, found


if __name__ == "__main__":
    main(*sys.argv[1:])
