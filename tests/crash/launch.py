"""Runs the command line, or a program that embeds the engine, with the fault injector in its process:
`launch.py ROLE ARGUMENTS…`. Without arguments it is the process from which such processes are forked
(`tests/fork_server.py`)."""

import asyncio
import contextlib
import io
import json
import os
import posix
import sys
from itertools import count

import killer
import victims

HOME = os.path.dirname(os.path.abspath(__file__))


def supervisor_program(original: str) -> str:
    """A supervisor has no environment, and some agents have only what is declared: what the injector needs to
    know is in its program, and in a file beside the agents' programs."""
    known = {name: value for name, value in os.environ.items() if name.startswith(("CRASH_", "AGENT_"))}
    program = os.path.join(known["CRASH_COUNTS"], f"supervised-{known['CRASH_RUN']}.py")
    known["CRASH_SUPERVISOR"] = original
    _place(
        program,
        f"import os, sys\nos.environ.update({known!r})\nsys.path.insert(0, {HOME!r})\n"
        "import supervised\nsupervised.run()\n",
    )
    with contextlib.suppress(OSError):  # The disk may be full or read-only, where no agent reads it.
        _place(os.path.join(known["CRASH_BASE"], "bin", "environment.json"), json.dumps(known))
    return program


def _place(path: str, text: str) -> None:
    """Not counted by the injector."""
    draft = f"{path}.{os.getpid()}"
    with io.open(draft, "w", encoding="utf-8") as file:  # noqa: UP020 - the other one is wrapped.
        file.write(text)
    posix.rename(draft, path)


def launch() -> None:
    role, *arguments = sys.argv[1:]
    injector = killer.install(role)
    recorder = killer.record_calls(role)
    from agentforge.adapters.log import write_ahead
    from agentforge.app import wiring
    from agentforge.cli.main import main
    from agentforge.system import disk

    # So that short runs use it and fill it. An engine that recovers a run finds it slow and gives it up: each
    # sync seems to take less time than the one before, which was that of the file.
    ticks, growth = count(), 0.5 if "recover" in arguments else 2
    disk.Disk.now = lambda _: float(next(ticks) ** growth)
    write_ahead.SYNCS_BEFORE, write_ahead.COMPARED, write_ahead.TURN, write_ahead.SIZE = 3, 3, 1, 4 * 1024
    wiring.SUPERVISOR = supervisor_program(wiring.SUPERVISOR)
    if "CRASH_PROGRAM" in os.environ:
        import program

        asyncio.run(program.main(arguments, program.Hooks(injector, recorder)))
    else:
        main(arguments)


def serve(fork_server) -> None:
    """Fork; returns in the forked processes."""
    import warm_caches

    warm_caches.import_all()
    warm_caches.fill_caches()
    fork_server.serve()
    victims.name_process(sys.argv[1])


if __name__ == "__main__":
    sys.path.append(os.path.dirname(HOME))
    import fork_server

    if not sys.argv[1:]:
        serve(fork_server)
    fork_server.run_and_exit(launch)
