"""Plays one exchange of a cassette: the program that the replay provider has run as its agent.

Imports nothing but the standard library, so that it starts fast and runs on any interpreter. The
cassette was checked before; here only what the world can refuse is checked.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NO_EXCHANGE = 66
STEP_FAILED = 65

Step = dict[str, Any]


class StepFailed(Exception):
    """The world isn't as it was when the cassette was recorded."""


class Ended(Exception):
    """The exchange asked to exit."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        exchange = find(options.cassette, options.stage, options.iteration, options.attempt)
    except (OSError, ValueError) as error:
        say(f"replay: {options.cassette} can't be read: {error}\n")
        return NO_EXCHANGE
    if exchange is None:
        say(
            f"replay: no exchange for stage {options.stage!r}, iteration {options.iteration} "
            f"(attempt {options.attempt}) in {options.cassette}\n"
        )
        return NO_EXCHANGE
    for number, step in enumerate(exchange["steps"], 1):
        try:
            wait(step.get("after", 0), options.speed)
            if step["do"] == "sleep":
                wait(step["seconds"], options.speed)
            else:
                ACTIONS[step["do"]](step)
        except Ended as ended:
            return ended.code
        except (StepFailed, OSError, UnicodeError) as error:
            say(f"replay: step {number} ({step['do']}) of {options.cassette}: {error}\n")
            return STEP_FAILED
    return 0


def find(cassette: str, stage: str, iteration: int, attempt: int) -> dict[str, Any] | None:
    """The exchange recorded for this very attempt, else the one for any attempt."""
    general = None
    with Path(cassette).open(encoding="utf-8") as lines:
        for line in lines:
            exchange = json.loads(line) if line.strip() else {}
            if (exchange.get("stage"), exchange.get("iteration")) == (stage, iteration):
                if exchange.get("attempt") == attempt:
                    return dict(exchange)
                general = exchange if exchange.get("attempt") is None else general
    return general


def wait(seconds: float, speed: float) -> None:
    if seconds and speed:
        time.sleep(seconds / speed)


def say(text: str) -> None:
    # Bytes, because an isolated interpreter may have an ASCII standard output.
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def inside(path: str) -> Path:
    """The file that a step means; refuses one outside the workdir, also through a link."""
    root = Path.cwd().resolve()
    target = (root / path).resolve()
    if root not in target.parents:
        raise StepFailed(f"{path} leads out of the workdir")
    return target


def write(step: Step) -> None:
    target = inside(step["path"])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(step["text"], encoding="utf-8", newline="")


def append(step: Step) -> None:
    target = inside(step["path"])
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a", encoding="utf-8", newline="") as file:
        file.write(step["text"])


def edit(step: Step) -> None:
    target = inside(step["path"])
    text = target.read_bytes().decode("utf-8")
    if step["old"] in text:
        target.write_bytes(text.replace(step["old"], step["new"], 1).encode())
    elif step["new"] not in text:
        # Where the new text stands already, an attempt before this one got as far.
        raise StepFailed(f"{step['path']} doesn't hold the text to replace")


def delete(step: Step) -> None:
    inside(step["path"]).unlink(missing_ok=True)


def run(step: Step) -> None:
    words = [_filled(word) for word in step["argv"]]
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False)
    expected = step.get("exit_code")
    if expected is not None and step.get("enforce", True) and ended.returncode != expected:
        raise StepFailed(f"{' '.join(words)} ended with {ended.returncode}, recorded was {expected}")


def write_result(step: Step) -> None:
    _write_json("AGENTFORGE_RESULT", step["value"])


def write_status(step: Step) -> None:
    _write_json("AGENTFORGE_STATUS", step["value"])


def end(step: Step) -> None:
    raise Ended(step["code"])


ACTIONS: dict[str, Callable[[Step], None]] = {
    "say": lambda step: say(step["text"]),
    "write": write,
    "append": append,
    "edit": edit,
    "delete": delete,
    "run": run,
    "result": write_result,
    "status": write_status,
    "exit": end,
}


def _write_json(variable: str, value: dict[str, Any]) -> None:
    path = os.environ.get(variable)
    if not path:
        raise StepFailed(f"{variable} isn't set: where to write is unknown")
    Path(path).write_text(json.dumps(value) + "\n", encoding="utf-8")


def _filled(word: str) -> str:
    for name, value in (
        ("{python}", sys.executable),
        ("{result}", os.environ.get("AGENTFORGE_RESULT", "")),
        ("{status}", os.environ.get("AGENTFORGE_STATUS", "")),
    ):
        word = word.replace(name, value)
    return word


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Play one exchange of a cassette in the current folder.")
    parser.add_argument("cassette")
    parser.add_argument("--stage", required=True)
    parser.add_argument("--iteration", type=int, required=True)
    parser.add_argument("--attempt", type=int, default=1)
    parser.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast, 0 doesn't wait")
    return parser


if __name__ == "__main__":
    sys.exit(main())
