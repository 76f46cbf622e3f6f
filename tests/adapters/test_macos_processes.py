"""The process port on macOS: its calls of `ps` and `sysctl`, and the parsing of their output."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest

from agentforge.adapters.host.processes import MacProcesses, ask_system
from agentforge.model.errors import AgentForgeError
from agentforge.ports.host import Identity

BOOT = "5E6FFEBE-0000-4000-8000-000000000001"
START = "Sun Nov 15 06:11:02 2026"
LISTING = ("ps", "-axww", "-E", "-o", "pid=,ppid=,pgid=,stat=,lstart=,command=")


class FakeSystem:
    """Answers as macOS does; a pid that isn't listed gets no answer."""

    def __init__(self, states: Mapping[int, str] = MappingProxyType({})) -> None:
        self.states = defaultdict(str, states) if not isinstance(states, defaultdict) else states
        self.asked: list[tuple[str, ...]] = []
        self.listings: list[str] = []

    def __call__(self, argv: tuple[str, ...]) -> str:
        self.asked.append(argv)
        match argv:
            case ("sysctl", "-n", "kern.bootsessionuuid"):
                return f"{BOOT}\n"
            case ("ps", "-p", pid, "-o", "stat=,lstart="):
                state = self.states[int(pid)]
                return f"{state:<4} {START}    \n" if state else ""
            case _ if argv == ("ps", "-axww", "-o", "pid=,lstart=,command="):
                return self.listings.pop(0) if self.listings else ""
            case _ if argv == LISTING:
                return self.listings.pop(0) if self.listings else ""
        raise AssertionError(argv)


def test_identity_comes_from_ps_and_the_boot_session() -> None:
    system = FakeSystem({41: "Ss"})
    processes = MacProcesses("supervisor.py", system)
    assert processes.identify(41) == Identity(41, START, BOOT, os.uname().nodename)
    assert system.asked == [
        ("sysctl", "-n", "kern.bootsessionuuid"),
        ("ps", "-p", "41", "-o", "stat=,lstart="),
    ]


def test_zombies_and_free_pids_have_no_identity() -> None:
    processes = MacProcesses("supervisor.py", FakeSystem({41: "Z+"}))
    assert processes.identify(41) is None
    assert processes.identify(42) is None


def test_alive_is_the_same_start_in_the_same_boot_whatever_the_host_is_called_now() -> None:
    processes = MacProcesses("supervisor.py", FakeSystem({41: "S"}))
    identity = Identity(41, START, BOOT, "name-at-home.local")
    assert processes.is_alive(identity)
    assert not processes.is_alive(msgspec.structs.replace(identity, boot_id="another"))
    assert not processes.is_alive(msgspec.structs.replace(identity, start_time="earlier"))


def test_supervisors_are_found_in_the_listing() -> None:
    system = FakeSystem()
    system.listings = [
        f"   41 {START} /opt/a python/bin/python3 -I -S /lib/supervisor.cpython-311.pyc /p/a run/attempt-1\n"
        f"   42 {START} python3 -I -S other.py /p/attempt-2\n"
        f"   43 {START} sleep 60\n"
    ]
    processes = MacProcesses("/elsewhere/supervisor.py", system)
    host = os.uname().nodename
    assert processes.supervisors() == {Identity(41, START, BOOT, host): "/p/a run/attempt-1"}


def test_wait_polls_until_the_process_is_gone() -> None:
    system = FakeSystem({41: "S"})
    processes = MacProcesses("supervisor.py", system)

    async def scenario() -> None:
        waiting = asyncio.create_task(processes.wait(Identity(41, START, BOOT, "")))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        del system.states[41]
        await asyncio.wait_for(waiting, 60)

    asyncio.run(scenario())


def test_supervisor_is_started_and_identified(tmp_path: Path) -> None:
    script = tmp_path / "supervisor.py"
    script.write_text("")
    everything_lives = defaultdict(lambda: "S")
    processes = MacProcesses(str(script), FakeSystem(everything_lives))
    identity = asyncio.run(processes.start_supervisor(str(tmp_path), b"{}"))
    assert identity == Identity(identity.pid, START, BOOT, os.uname().nodename)
    os.waitid(os.P_PID, identity.pid, os.WEXITED | os.WNOWAIT)
    processes.identify(identity.pid)  # Looking at it reaps it.
    with pytest.raises(ChildProcessError):
        os.waitpid(identity.pid, 0)


def test_supervisor_that_ps_does_not_know_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "supervisor.py"
    script.write_text("")
    processes = MacProcesses(str(script), FakeSystem())
    with pytest.raises(AgentForgeError, match="`ps` printed no information about process"):
        asyncio.run(processes.start_supervisor(str(tmp_path), b"{}"))
    while processes._starter._children:
        processes.identify(1)


def test_terminate_signals_a_living_process_only() -> None:
    child = subprocess.Popen(["sleep", "60"])
    system = FakeSystem()
    processes = MacProcesses("supervisor.py", system)
    identity = Identity(child.pid, START, BOOT, "")
    processes.terminate(identity)
    assert child.poll() is None
    system.states[child.pid] = "S"
    processes.terminate(identity)
    assert child.wait(60) == -signal.SIGTERM


def test_end_marked_finds_the_mark_in_the_environment_that_ps_shows() -> None:
    children = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(3)]
    marked, child_of_marked, other = (child.pid for child in children)
    system = FakeSystem()
    listing = "\n".join(
        f"{pid} {parent} {pid} S {START} sleep 60 PATH=/bin {mark} HOME=/Users/x"
        for pid, parent, mark in (
            (marked, 1, "AGENTFORGE_ATTEMPT=a1"),
            (child_of_marked, marked, ""),
            (other, 1, "AGENTFORGE_ATTEMPT=a10"),
        )
    )
    system.listings = [listing]
    ended = asyncio.run(MacProcesses("supervisor.py", system).end_marked("AGENTFORGE_ATTEMPT=a1"))
    assert ended == 2
    assert system.asked[1:] == [LISTING, LISTING]
    assert [child.wait(60) for child in children[:2]] == [-signal.SIGTERM] * 2
    assert children[2].poll() is None
    children[2].kill()
    children[2].wait(60)


def test_asking_the_system_is_independent_of_language_and_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    code = "import os; print(os.environ['TZ'], os.environ['LC_ALL'])"
    assert ask_system((sys.executable, "-c", code)) == "UTC C\n"


def test_variable_of_an_ancestor_is_found_in_the_listing() -> None:
    me = os.getpid()
    system = FakeSystem()
    row = f"1 S {START}"
    system.listings = [
        f"{me} 70 {row} python -m x\n70 60 {row} sh -c x A=1 MARK=one\n60 0 {row} login MARKED=no MARK=two\n"
        f"80 60 {row} other MARK=three\n"
    ]
    assert MacProcesses("supervisor.py", system).inherited("MARK") == {"one", "two"}
    system.listings = [f"{me} {me} {row} python\n"]
    assert MacProcesses("supervisor.py", system).inherited("MARK") == frozenset()
