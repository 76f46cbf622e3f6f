"""The program that tmux starts: takes a command line, a directory and an environment from a file, and
becomes that program.

A tmux server has an environment of its own and takes short command lines only, so neither travels
through it. One standard-library file that imports nothing of ours.
"""

import json
import os
import sys

OWN = ("TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION")
"""What tmux says of the terminal that the program now runs in."""


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        launch = json.load(file)
    # It holds an environment, and so may hold secrets.
    os.unlink(path)
    environment = {name: value for name, value in launch["env"].items() if name not in OWN}
    environment |= {name: os.environ[name] for name in OWN if name in os.environ}
    os.chdir(launch["cwd"])
    os.execve(launch["argv"][0], launch["argv"], environment)  # noqa: S606 - becoming another program is the point


if __name__ == "__main__":
    main(sys.argv[1])
