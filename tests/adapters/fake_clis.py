"""Stand-ins for agents' CLIs: they show how they were called, or do what a test wants."""

import json
import sys
from pathlib import Path
from typing import Any

WRITE = """
import json, os, sys
with open(os.environ["AGENTFORGE_RESULT"], "w") as result:
    json.dump({"summary": "done"}, result)
"""

SHOW = f"""{WRITE}
prompt = sys.stdin.read()
names = ["EXTRA", "AGENTFORGE_RESULT", "AGENTFORGE_STATUS"]
env = {{name: os.environ.get(name) for name in names}}
print(json.dumps({{"argv": sys.argv[1:], "stdin": prompt, "env": env}}))
"""


LEAVE = f"""{WRITE}
import pathlib
left = pathlib.Path("left")
tries = left.read_text() if left.exists() else ""
left.write_text(tries + ".")
with open(os.environ["AGENTFORGE_ARTIFACT"], "w") as artifact:
    json.dump(ARTIFACTS[min(len(tries), len(ARTIFACTS) - 1)], artifact)
"""


def leaving_code(*artifacts: Any) -> str:
    """The code of a program that writes these artifacts, one each time that it runs, and repeats the last."""
    return f"ARTIFACTS = {artifacts!r}\n{LEAVE}"


def put_cli(folder: Path, name: str, code: str = SHOW) -> Path:
    """An executable of that name, in Python."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable} -IS\n{code}")
    program.chmod(0o755)
    return program


def shown(output: str) -> dict[str, Any]:
    """How the fake was called."""
    called: dict[str, Any] = json.loads(output)
    return called


STREAMS = Path(__file__).parent / "streams"


def speaking(name: str, case: str = "usage") -> str:
    """The code of a program that writes its result and prints what the real CLI once printed."""
    stream = (STREAMS / name / f"{case}.jsonl").read_text()
    return f"{WRITE}\nsys.stdin.read()\nsys.stdout.write({stream!r})\n"
