"""The real supervisor program, run with the fault injector in its process."""

import os
import sys

sys.path.insert(0, os.environ["CRASH_HOME"])

import killer

if __name__ == "__main__":
    program = os.environ["CRASH_SUPERVISOR"]
    with open(program, encoding="utf-8") as file:
        code = compile(file.read(), program, "exec")
    killer.install("supervisor")
    killer.record_calls("supervisor")
    exec(code, {"__name__": "__main__", "__file__": program})
