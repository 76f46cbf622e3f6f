"""The program that tmux starts: reads a command line, a directory and an environment from a file, and
executes that command.

A tmux server has its own environment and accepts only short command lines, so neither is passed through it.
One standard-library file that imports nothing of ours.
"""

import json
import os
import sys

OWN = ("TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION")
"""Variables that tmux sets for the new terminal."""


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        launch = json.load(file)
    # It contains an environment, which may contain secrets.
    os.unlink(path)
    environment = {name: value for name, value in launch["env"].items() if name not in OWN}
    environment |= {name: os.environ[name] for name in OWN if name in os.environ}
    os.chdir(launch["cwd"])
    os.execve(launch["argv"][0], launch["argv"], environment)  # noqa: S606 - replaces this process


if __name__ == "__main__":
    main(sys.argv[1])
