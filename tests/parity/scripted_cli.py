"""Stand-ins for `claude`, `codex` and `bd` that answer from a case's `fake/` folder.

Run as a program: its own name says whom it plays. Answers lie in `fake/` and calls are counted in `calls/`,
beside its own folder, since an agent's environment isn't all of the engine's. Files: result-N.json,
status-N.json, rc-N (N is the iteration, or `any`), judge-N.txt (N is the call, or none), bd-ready (how many
lines `bd ready` prints at first; one less with each call).
"""

import fcntl
import os
import re
import sys
from pathlib import Path
from typing import TextIO

PLACE = Path(sys.argv[0]).resolve().parent.parent
ITERATION = re.compile(r"(/[^\s\"'\]]*?/iterations/(\d+))/(?:result|status|context)\.json")


def main() -> int:
    name = Path(sys.argv[0]).name
    return _bd() if name == "bd" else _agent(name)


def _agent(name: str) -> int:
    prompt = sys.stdin.read()
    fake = PLACE / "fake"
    if _is_judge(prompt):
        call = _count("judge")
        answer = _first(fake / f"judge-{call}.txt", fake / "judge.txt")
        _say(answer if answer is not None else '{"stop": false, "reason": "no answer", "confidence": 0}')
        return 0
    found = ITERATION.search(prompt)
    if found is None:
        _say(f"{name}: the prompt names no iteration", sys.stderr)
        return 2
    folder, number = Path(found[1]), int(found[2])
    for kind in ("result", "status"):
        content = _first(fake / f"{kind}-{number}.json", fake / f"{kind}-any.json")
        if content is not None:
            (folder / f"{kind}.json").write_text(content)
    _say(f"fake {name} output iter {number}")
    _say(f"fake {name} stderr iter {number}", sys.stderr)
    code = _first(fake / f"rc-{name}-{number}", fake / f"rc-{number}", fake / "rc-any")
    if code is None:
        return 0
    if not (fake / f"result-{number}.json").exists():
        (folder / "result.json").unlink(missing_ok=True)
    return int(code)


def _is_judge(prompt: str) -> bool:
    """A judge's prompt is marked; an agent's prompt names the result file."""
    return os.environ.get("MOCK_PROVIDER") == "judge" or ITERATION.search(prompt) is None


def _bd() -> int:
    if sys.argv[1:2] == ["ready"]:
        start = int(os.environ.get("PARITY_BEADS", "0"))
        left = max(0, start - _count(f"bd-{'-'.join(sys.argv[2:]).replace('/', '_')}") + 1)
        for number in range(left):
            _say(f"bead-{number + 1}")
    return 0


def _say(text: str, stream: TextIO = sys.stdout) -> None:
    stream.write(f"{text}\n")


def _first(*paths: Path) -> str | None:
    return next((path.read_text() for path in paths if path.is_file()), None)


def _count(name: str) -> int:
    """The number of calls, including this one."""
    counter = PLACE / "calls" / name
    with open(counter, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or 0) + 1
        file.seek(0)
        file.truncate()
        file.write(str(number))
    return number


if __name__ == "__main__":
    sys.exit(main())
