"""Kills a process at every change of the file system that deleting a run makes. Each time the run is whole or
invisible, and the next deletion leaves nothing. Prints the number of kills."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from agentforge import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

CHANGES = ("os.rename", "os.remove", "os.rmdir")
PIPELINE = {"nodes": [{"id": "a", "prompt": "x", "provider": "scripted", "delay": 0}]}


def engine(root: Path) -> Engine:
    environ = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(root / "state")}
    return Engine(root / "project", providers={"scripted": ScriptedProvider([says("x")])}, environ=environ)


def removed_until_killed(root: Path, last: int) -> None:
    seen = 0

    def hook(event: str, _: object) -> None:
        nonlocal seen
        if event in CHANGES:
            seen += 1
            if seen == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    engine(root).remove("s")
    os._exit(0)


def kept(root: Path) -> list[str]:
    return [path.name for path in (root / "state").rglob("*.json")]


def check(root: Path, point: int) -> bool:
    """Returns whether the process was killed."""
    (root / "project").mkdir(parents=True)
    asyncio.run(engine(root).run(PIPELINE, session="s"))
    child = os.fork()
    if child == 0:
        removed_until_killed(root, point)
    killed = os.waitpid(child, 0)[1] == signal.SIGKILL
    at = engine(root)
    assert at.runs.not_runs() == {}
    if at.runs.sessions() == ["s"]:
        assert at.inspect("s").status == "completed"
        assert at.runs.verify("s").is_intact
    else:
        assert at.runs.sessions() == []
        asyncio.run(at.run(PIPELINE, session="s"))
    assert at.remove("s")
    left = [path.name for path in (root / "project/.claude/pipeline-runs").iterdir()]
    assert left == [".gitignore"], left
    assert kept(root) == [], kept(root)
    return killed


def main(folder: str) -> None:
    point = 1
    while check(Path(folder) / str(point), point):
        point += 1
    sys.stdout.write(f"{point - 1}\n")


if __name__ == "__main__":
    main(sys.argv[1])
