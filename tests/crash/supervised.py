"""The real supervisor program, run with the fault injector in its process."""

import os
from importlib.machinery import SourceFileLoader

import killer


def run() -> None:
    program = os.environ["CRASH_SUPERVISOR"]
    # Like the engine, which uses the bytecode if there is any.
    code = SourceFileLoader("supervisor", program).get_code("supervisor")
    killer.install("supervisor")
    killer.record_calls("supervisor")
    exec(code, {"__name__": "__main__", "__file__": program})
