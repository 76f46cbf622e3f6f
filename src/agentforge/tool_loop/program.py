"""The tool loop as a program: the task as JSON on stdin, progress as JSON lines, the outcome as the last one.

    python -P -E program.py run [KEY_VARIABLE]
    python -P -E program.py search '["ROOT", "PATTERN", "PATH", "FILES"]'

The supervisor runs it like any agent, so it is picked up and ended like one.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KEY_DESCRIPTOR = "AGENTFORGE_KEY_DESCRIPTOR"
FAILED, MISUSED, TERMINATED = 1, 2, 143


def main(arguments: list[str]) -> int:
    if ROOT not in sys.path:
        sys.path.insert(0, ROOT)
    match arguments:
        case ["run", *variables]:
            key = take_key(variables)
            from agentforge.tool_loop.loop import run

            return run(key)
        case ["search", asked]:
            from agentforge.tool_loop.tools.search import answer

            return answer(asked)
    sys.stderr.write("usage: program.py run [KEY_VARIABLE] | search JSON\n")
    return MISUSED


def take_key(variables: list[str]) -> str:  # noqa: RET503 - the last line doesn't return.
    """The key, out of an environment that no command of the model's can look at: the program starts itself
    again without the variable, and hands itself the key through a pipe."""
    handed = os.environ.pop(KEY_DESCRIPTOR, "")
    if handed:
        with open(int(handed), "rb") as pipe:
            return pipe.read().decode()
    if not variables:
        return ""
    key = os.environ.pop(variables[0], "")
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    os.write(writing, key.encode())
    os.close(writing)
    os.environ[KEY_DESCRIPTOR] = str(reading)
    os.execve(sys.executable, [sys.executable, "-P", "-E", *sys.argv], os.environ)  # noqa: S606 - itself.


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
