"""The program that tmux starts: reads a command line, a directory and an environment from a named pipe, and
executes that command.

A tmux server has its own environment and accepts only short command lines, so neither is passed through it.
No file contains them either, since an environment may contain secrets. One standard-library file that imports
nothing of ours.
"""

import json
import os
import select
import sys
import time

SECONDS = 10.0
OWN = ("TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION")
"""Variables that tmux sets for the new terminal."""


def received(path: str) -> bytes:
    """What the launching program writes to the pipe; it may not have opened it yet."""
    pipe, parts = os.open(path, os.O_RDONLY | os.O_NONBLOCK), []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            part = os.read(pipe, 65536)
        except BlockingIOError:
            select.select([pipe], [], [], 0.1)
            continue
        if part:
            parts.append(part)
        elif parts:
            os.close(pipe)
            return b"".join(parts)
        else:
            time.sleep(0.01)
    sys.exit("the command that opened this tmux session exited; run it again")


def main(path: str) -> None:
    launch = json.loads(received(path))
    environment = {name: value for name, value in launch["env"].items() if name not in OWN}
    environment |= {name: os.environ[name] for name in OWN if name in os.environ}
    os.chdir(launch["cwd"])
    os.execve(launch["argv"][0], launch["argv"], environment)  # noqa: S606 - replaces this process


if __name__ == "__main__":
    main(sys.argv[1])
