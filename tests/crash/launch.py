"""Runs the command line with the fault injector in its process: `launch.py ROLE ARGUMENTS…`."""

import os
import sys

import killer

HOME = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    killer.install(role)
    killer.record_calls(role)
    from agentforge.app import wiring
    from agentforge.cli.main import main

    os.environ["CRASH_SUPERVISOR"], wiring.SUPERVISOR = wiring.SUPERVISOR, os.path.join(HOME, "supervised.py")
    main(arguments)
