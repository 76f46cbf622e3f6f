"""Plays one exchange of a cassette: the agent program of the replay provider.

Imports little, so that it starts fast. The cassette was validated before; only runtime errors are handled
here. Files are reached from the open folder of the project, so that no link leads out of it, also one that is
put there meanwhile.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentforge.system.confined import ConfinedFolder

ROOT = str(Path(__file__).resolve().parents[3])
"""Of the package: nothing in the workspace or the environment can shadow it."""

NO_EXCHANGE = 66
STEP_FAILED = 65
FAILED = 67
"""The recorded attempt failed; the last line contains the failure."""
FAILURE = "replay-failure:"

StepData = dict[str, Any]
ExchangeData = dict[str, Any]


class StepFailed(Exception):
    """The workspace differs from the recording."""


class PlaybackEnded(Exception):
    """The exchange ended with an exit step."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def main(arguments: list[str] | None = None) -> int:
    if ROOT not in sys.path:
        sys.path.insert(0, ROOT)
    options = _parser().parse_args(arguments)
    try:
        exchanges = read(options.cassette)
    except (OSError, ValueError) as error:
        say(f"replay: can't read {options.cassette}: {error}\n")
        return NO_EXCHANGE
    number = find(exchanges, options)
    if number is None:
        say(
            f"replay: no exchange for stage {options.stage!r}, iteration {options.iteration} "
            f"(attempt {options.attempt}) in {options.cassette}\n"
        )
        return NO_EXCHANGE
    return play(exchanges[number], later_of(exchanges, number), options)


def play(exchange: ExchangeData, later: dict[str, list[bytes | None]], options: argparse.Namespace) -> int:
    for number, step in enumerate(exchange.get("steps", ()), 1):
        try:
            wait(step.get("after", 0), options.speed)
            if step["do"] == "sleep":
                wait(step["seconds"], options.speed)
            elif step["do"] == "run" and not options.allow_commands:
                refuse_command(step)
            elif step["do"] not in ("write", "delete") or not is_superseded(step, later):
                ACTIONS[step["do"]](step)
        except PlaybackEnded as ended:
            return ended.code
        except (StepFailed, OSError, ValueError) as error:
            from agentforge.system.folders import OutsideRoot

            is_outside = isinstance(error, OutsideRoot)
            why = f"{step['path']} is outside the workdir" if is_outside else error
            say(f"replay: step {number} ({step['do']}) of {options.cassette}: {why}\n")
            return STEP_FAILED
    return 0


def read(cassette: str) -> list[ExchangeData]:
    with Path(cassette).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()][1:]


def find(exchanges: list[ExchangeData], options: argparse.Namespace) -> int | None:
    """The index of the matching exchange, or None; the most specific match wins."""
    criteria = [(name, getattr(options, name)) for name in ("attempt", "node", "branch", "kind")]
    best: tuple[list[bool], int] | None = None
    for number, exchange in enumerate(exchanges):
        if (exchange.get("stage"), exchange.get("iteration")) != (options.stage, options.iteration):
            continue
        if any(exchange.get(name) and exchange[name] != value for name, value in criteria):
            continue
        fit = [bool(exchange.get(name)) for name, _ in criteria]
        if best is None or fit > best[0]:
            best = fit, number
    return best[1] if best else None


# The branches of a block work in one folder at the same time. In a replay their order may differ from that of
# the recording: a branch that plays its older version of a file must not overwrite a newer one.


def later_of(exchanges: list[ExchangeData], number: int) -> dict[str, list[bytes | None]]:
    """The later contents of each file, written by other branches of the same block after this exchange."""
    mine = exchanges[number]
    found: dict[str, list[bytes | None]] = {}
    for other in exchanges[number + 1 :] if mine.get("branch") else []:
        if other.get("node") == mine.get("node") and other.get("branch") != mine["branch"]:
            for step in other.get("steps", ()):
                if step["do"] in ("write", "delete"):
                    found.setdefault(step["path"], []).append(_content(step))
    return found


def is_superseded(step: StepData, later: dict[str, list[bytes | None]]) -> bool:
    """Whether another branch has already written a later version of the file."""
    if step["path"] not in later:
        return False
    return content_of(step["path"]) in later[step["path"]]


def wait(seconds: float, speed: float) -> None:
    if seconds and speed:
        time.sleep(seconds / speed)


def say(text: str) -> None:
    # Bytes, because the stdout of an isolated interpreter may be ASCII.
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


@cache
def workdir() -> "ConfinedFolder":
    from agentforge.system.confined import ConfinedFolder

    return ConfinedFolder(".")


def refuse_outside(path: str, resolved: str) -> None:
    """Raises StepFailed for the workdir itself and for protected folders, also through a link."""
    from agentforge.model.names import PROTECTED, folded

    if resolved == ".":
        raise StepFailed(f"{path} is outside the workdir")
    for name in (*path.split("/"), *resolved.split("/")):
        if folded(name) in PROTECTED:
            raise StepFailed(f"{path}: a replay must not write below {name}")


def content_of(path: str) -> bytes | None:
    """None for anything but a regular file."""
    from agentforge.system.folders import NotRegular

    try:
        found = workdir().stat(path)
        return workdir().read(path, found.st_size)[0] if found else None
    except (FileNotFoundError, NotRegular):
        return None


def put(path: str, content: bytes, *, executable: bool = False) -> None:
    workdir().write(path, content, lambda resolved: refuse_outside(path, resolved), executable=executable)


def write(step: StepData) -> None:
    put(step["path"], _content(step) or b"", executable=bool(step.get("executable")))


def append(step: StepData) -> None:
    put(step["path"], (content_of(step["path"]) or b"") + step["text"].encode())


def edit(step: StepData) -> None:
    content = content_of(step["path"])
    if content is None:
        raise StepFailed(f"{step['path']} is not a file")
    text = content.decode()
    if step["old"] in text:
        put(step["path"], text.replace(step["old"], step["new"], 1).encode())
    elif step["new"] not in text:
        # If the new text is already in place, an earlier attempt made this edit.
        raise StepFailed(f"{step['path']} doesn't contain the text to replace")


def delete(step: StepData) -> None:
    path = step["path"]
    with suppress(FileNotFoundError), workdir().at(path) as found:
        refuse_outside(path, found.path)
        os.unlink(found.name, dir_fd=found.folder)


def run(step: StepData) -> None:
    import subprocess  # Takes longer than most exchanges.

    words = [_filled(word) for word in step["argv"]]
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False)
    expected = step.get("exit_code")
    if expected is not None and step.get("enforce", True) and ended.returncode != expected:
        raise StepFailed(f"{' '.join(words)} exited with {ended.returncode}, expected {expected}")


def refuse_command(step: StepData) -> None:
    raise StepFailed(f"{' '.join(step['argv'])}: commands are not allowed in this replay")


def end(step: StepData) -> None:
    raise PlaybackEnded(step["code"])


def fail(step: StepData) -> None:
    say(f"\n{FAILURE} {json.dumps(step)}\n")
    raise PlaybackEnded(FAILED)


def write_artifact(step: StepData) -> None:
    """Another pipeline than the recorded one may ask for none."""
    if os.environ.get("AGENTFORGE_ARTIFACT"):
        _write_to_variable("AGENTFORGE_ARTIFACT", step)


ACTIONS: dict[str, Callable[[StepData], None]] = {
    "say": lambda step: say(step["text"]),
    "write": write,
    "append": append,
    "edit": edit,
    "delete": delete,
    "run": run,
    "result": lambda step: _write_to_variable("AGENTFORGE_RESULT", step),
    "status": lambda step: _write_to_variable("AGENTFORGE_STATUS", step),
    "artifact": write_artifact,
    "exit": end,
    "fail": fail,
}


def _write_to_variable(variable: str, step: StepData) -> None:
    path = os.environ.get(variable)
    if not path:
        raise StepFailed(f"{variable} is not set")
    text = step.get("text")
    Path(path).write_text(json.dumps(step["value"]) + "\n" if text is None else text, encoding="utf-8")


def _content(step: StepData) -> bytes | None:
    """The file's content after the step, or None if it was deleted."""
    if step["do"] == "delete":
        return None
    if step.get("base64") is not None:
        import base64

        return base64.b64decode(step["base64"])
    return str(step["text"]).encode("utf-8", "surrogateescape")


def _filled(word: str) -> str:
    for name, value in (
        ("{python}", sys.executable),
        ("{result}", os.environ.get("AGENTFORGE_RESULT", "")),
        ("{status}", os.environ.get("AGENTFORGE_STATUS", "")),
        ("{artifact}", os.environ.get("AGENTFORGE_ARTIFACT", "")),
    ):
        word = word.replace(name, value)
    return word


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Play one exchange of a cassette in the current directory.")
    parser.add_argument("cassette")
    parser.add_argument("--stage", required=True)
    parser.add_argument("--iteration", type=int, required=True)
    parser.add_argument("--attempt", type=int, default=1)
    parser.add_argument("--kind", default="work", help="work or judge")
    parser.add_argument("--node", default="", help="key of the stage in the pipeline")
    parser.add_argument("--branch", default="", help="provider of the branch in a parallel block")
    parser.add_argument("--allow-commands", action="store_true", help="run the commands of the cassette")
    parser.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast, 0 doesn't wait at all")
    return parser


if __name__ == "__main__":
    sys.exit(main())
