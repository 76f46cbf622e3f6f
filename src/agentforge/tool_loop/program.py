"""The tool loop as a program: reads the task as JSON from stdin, prints progress as JSON lines, the result
last.

    python -P -E program.py run [KEY_VARIABLE]
    python -P -E program.py search '["ROOT", "PATTERN", "PATH", "FILES"]'

The supervisor runs it like any agent, so it can be reattached to and ended like one.
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
        case ["search", query]:
            from agentforge.tool_loop.workspace import run_search

            return run_search(query)
    sys.stderr.write("usage: program.py run [KEY_VARIABLE] | search JSON\n")
    return MISUSED


def take_key(variables: list[str]) -> str:  # noqa: RET503 - the last line doesn't return.
    """The API key. It must not stay in the process environment, where the model's commands could read it: the
    program re-executes itself without the variable, and passes the key through a pipe."""
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
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Skips freeing what the model libraries allocated, which takes longer than most exits.
