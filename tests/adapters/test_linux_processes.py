"""The process port on Linux, with real processes."""

import asyncio
import gc
import json
import marshal
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.adapters.processes_contract import ProcessesContract

import agentforge.runtime
from agentforge.adapters.host.processes import LinuxProcesses
from agentforge.ports.host import Identity, Processes

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

SUPERVISOR = str(Path(agentforge.runtime.__file__).parent / "supervisor.py")


@pytest.fixture
def processes() -> LinuxProcesses:
    return LinuxProcesses(SUPERVISOR)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of a test; none of them may be left running by it."""
    children: list[subprocess.Popen[bytes]] = []
    yield children
    left = [child for child in children if child.poll() is None]
    for child in left:
        child.kill()
        child.wait(60)
    assert left == []


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return f"AGENTFORGE_ATTEMPT={os.getpid()}-{tmp_path.name}"


def spec(folder: Path, *argv: str) -> bytes:
    found = folder.stat()
    content = {
        "place": {"path": str(folder), "device": found.st_dev, "inode": found.st_ino},
        "lease": str(folder / "lease"),
        "output_cap": 10_000,
        "argv": argv,
        "env": {"PATH": os.environ["PATH"]},
        "cwd": str(folder),
        "stdin": "",
        "descriptors": {},
        "separate_errors": False,
        "secrets": [],
        "cleanup": [],
        "timeout": 120,
        "idle_timeout": None,
        "term_grace": 1,
        "orphan_grace": 900,
        "mark": f"AGENTFORGE_ATTEMPT={os.getpid()}-{folder.name}",
    }
    return marshal.dumps(content)


def start(processes: LinuxProcesses, folder: Path, *argv: str) -> Identity:
    return asyncio.run(processes.start_supervisor(str(folder), spec(folder, *argv)))


def spawn(script: str, *, env: dict[str, str] | None = None, **options: bool) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sh", "-c", script], env={"PATH": os.environ["PATH"], **(env or {})}, **options)


def spawn_held(script: str) -> subprocess.Popen[bytes]:
    """A process that runs until `let_go`, however long the test takes, if the script reads its input."""
    return subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE)


def let_go(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.close()


async def wait_and_let_go(
    processes: LinuxProcesses, identity: Identity, child: subprocess.Popen[bytes]
) -> None:
    waiting = asyncio.create_task(processes.wait(identity))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    let_go(child)
    await asyncio.wait_for(waiting, 60)


def eventually_is(pid: int, program: str) -> None:
    """Until the process has become this program: in the middle of exec, it shows no environment, although it
    already has the name."""
    comm, environ, until = Path(f"/proc/{pid}/comm"), Path(f"/proc/{pid}/environ"), time.monotonic() + 60
    while comm.read_text() != f"{program}\n" or not environ.read_bytes():
        assert time.monotonic() < until, f"{pid} isn't {program} in time"
        time.sleep(0.002)


def as_env(mark: str) -> dict[str, str]:
    name, _, value = mark.partition("=")
    return {name: value}


def eventually_number(path: Path) -> int:
    until = time.monotonic() + 60
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < until, f"{path.name} wasn't written in time"
        time.sleep(0.002)
    return int(path.read_text())


class TestLinuxContract(ProcessesContract):
    @pytest.fixture
    def processes(self) -> Processes:
        return LinuxProcesses(SUPERVISOR)

    @pytest.fixture
    def spec(self, folder: Path) -> bytes:
        return spec(folder, "sleep", "60")

    @pytest.fixture
    def start_marked(self, started: list[subprocess.Popen[bytes]]) -> Callable[[str], object]:
        def start(mark: str) -> None:
            started.append(spawn("exec sleep 60", env=as_env(mark), start_new_session=True))
            eventually_is(started[-1].pid, "sleep")

        return start


def test_identity_is_pid_start_time_boot_and_host(processes: LinuxProcesses) -> None:
    me = processes.identify(os.getpid())
    assert me is not None
    assert me.pid == os.getpid()
    assert me.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert me.host == os.uname().nodename
    assert processes.is_alive(me)


@pytest.mark.parametrize(
    "other", [{"start_time": "1"}, {"boot_id": "another boot"}, {"host": "another host"}, {"pid": 1}]
)
def test_process_with_a_recycled_pid_or_of_another_boot_or_host_is_not_alive(
    processes: LinuxProcesses, other: dict[str, object]
) -> None:
    me = processes.identify(os.getpid())
    assert me is not None
    assert not processes.is_alive(msgspec.structs.replace(me, **other))


def test_a_free_pid_has_no_identity(
    processes: LinuxProcesses, started: list[subprocess.Popen[bytes]]
) -> None:
    child = spawn("exit 0")
    child.wait(60)
    assert processes.identify(child.pid) is None


def test_zombie_is_not_alive(
    processes: LinuxProcesses, started: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    started.append(spawn_held("read line"))
    identity = processes.identify(started[0].pid)
    assert identity is not None
    let_go(started[0])
    os.waitid(os.P_PID, started[0].pid, os.WEXITED | os.WNOWAIT)
    assert Path(f"/proc/{identity.pid}").exists()
    assert not processes.is_alive(identity)
    assert processes.identify(identity.pid) is None


def test_supervisor_is_started_apart_and_waited_for(processes: LinuxProcesses, tmp_path: Path) -> None:
    identity = start(processes, tmp_path, "sh", "-c", "sleep 0.2; exit 5")
    assert os.getsid(identity.pid) == identity.pid
    asyncio.run(asyncio.wait_for(processes.wait(identity), 60))
    assert json.loads((tmp_path / "exit.json").read_text())["exit_code"] == 5
    assert msgspec.json.decode((tmp_path / "claim").read_bytes(), type=Identity) == identity
    assert not Path(f"/proc/{identity.pid}").exists()  # Reaped, too.


def test_a_supervisor_that_is_gone_before_the_handover_is_waited_for(
    tmp_path: Path,
) -> None:
    script = tmp_path / "supervisor.py"
    script.write_text("raise SystemExit(1)")
    processes = LinuxProcesses(str(script))
    asyncio.run(asyncio.wait_for(processes.wait(start(processes, tmp_path, "true")), 60))
    assert not (tmp_path / "claim").exists()


def test_a_large_specification_is_handed_over_in_parts(processes: LinuxProcesses, tmp_path: Path) -> None:
    large = marshal.loads(spec(tmp_path, "cat")) | {"stdin": "x" * 3_000_000, "output_cap": 5_000_000}
    started = asyncio.run(processes.start_supervisor(str(tmp_path), marshal.dumps(large)))
    asyncio.run(asyncio.wait_for(processes.wait(started), 60))
    assert (tmp_path / "output.log").stat().st_size == 3_000_000


def test_the_supervisor_inherits_no_variables(
    processes: LinuxProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-0123456789")
    identity = start(processes, tmp_path, "sh", "-c", "echo $$ > up; sleep 60")
    eventually_number(tmp_path / "up")
    assert b"MY_API_KEY" not in Path(f"/proc/{identity.pid}/environ").read_bytes()
    processes.terminate(identity)
    asyncio.run(asyncio.wait_for(processes.wait(identity), 60))


def test_ended_supervisors_leave_no_zombies_without_a_waiter(
    processes: LinuxProcesses, tmp_path: Path
) -> None:
    first = start(processes, tmp_path, "true")
    while processes.is_alive(first):
        time.sleep(0.005)
    other = tmp_path / "other"
    other.mkdir()
    second = start(processes, other, "true")
    assert not Path(f"/proc/{first.pid}").exists()
    asyncio.run(asyncio.wait_for(processes.wait(second), 60))


def test_dropping_the_adapter_leaves_the_agent_running_without_a_warning(tmp_path: Path) -> None:
    engine = LinuxProcesses(SUPERVISOR)
    identity = start(engine, tmp_path, "sh", "-c", "echo $$ > up; sleep 60")
    eventually_number(tmp_path / "up")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del engine
        gc.collect()
    successor = LinuxProcesses(SUPERVISOR)
    assert successor.is_alive(identity)
    successor.terminate(identity)
    asyncio.run(asyncio.wait_for(successor.wait(identity), 60))
    assert json.loads((tmp_path / "exit.json").read_text())["status"] == "ended"
    os.waitpid(identity.pid, 0)


def test_wait_for_a_process_that_is_not_a_child(
    processes: LinuxProcesses, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    started.append(spawn_held(f"exec 3<&0; (exec cat <&3) & echo $! > {tmp_path}/pid; wait"))
    identity = processes.identify(eventually_number(tmp_path / "pid"))
    assert identity is not None
    asyncio.run(wait_and_let_go(processes, identity, started[0]))
    assert not processes.is_alive(identity)
    started[0].wait(60)


def test_wait_returns_at_once_for_a_recycled_pid(processes: LinuxProcesses) -> None:
    me = processes.identify(os.getpid())
    assert me is not None
    asyncio.run(asyncio.wait_for(processes.wait(msgspec.structs.replace(me, start_time="1")), 60))


def test_wait_works_without_a_pidfd(
    processes: LinuxProcesses, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    started.append(spawn_held("read line"))
    identity = processes.identify(started[0].pid)
    assert identity is not None
    asyncio.run(wait_and_let_go(processes, identity, started[0]))
    assert not processes.is_alive(identity)
    started[0].wait(60)


def test_terminate_reaches_that_very_process_only(
    processes: LinuxProcesses, started: list[subprocess.Popen[bytes]]
) -> None:
    started.append(spawn("exec sleep 60"))
    identity = processes.identify(started[0].pid)
    assert identity is not None
    processes.terminate(msgspec.structs.replace(identity, start_time="1"))
    time.sleep(0.05)
    assert processes.is_alive(identity)
    processes.terminate(identity)
    assert started[0].wait(60) == -signal.SIGTERM
    processes.terminate(identity)  # Gone: nothing to do.


def test_leftovers_of_a_killed_supervisor_are_ended(
    processes: LinuxProcesses, tmp_path: Path, mark: str
) -> None:
    """The agent dies with its supervisor; its tools, in sessions of their own, are found by the mark."""
    tool = "setsid sh -c 'echo $$ > tool; exec sleep 60' & sleep 60"
    identity = start(processes, tmp_path, "sh", "-c", tool)
    pid = eventually_number(tmp_path / "tool")
    eventually_is(pid, "sleep")
    os.kill(identity.pid, signal.SIGKILL)
    asyncio.run(asyncio.wait_for(processes.wait(identity), 60))
    assert processes.identify(pid) is not None
    assert asyncio.run(processes.end_marked(mark)) >= 1
    assert processes.identify(pid) is None
    assert not (tmp_path / "exit.json").exists()


def test_supervisors_are_found_by_the_folders_that_they_were_started_in(
    processes: LinuxProcesses, tmp_path: Path
) -> None:
    attempt = tmp_path / "with a space"
    attempt.mkdir()
    script = "while [ ! -e go ]; do sleep 0.02; done"
    identity = asyncio.run(processes.start_supervisor(str(attempt), spec(attempt, "sh", "-c", script)))
    look_alike = subprocess.Popen(["sleep", "60"], executable="/bin/sleep")
    try:
        assert processes.supervisors()[identity] == str(attempt)
        assert look_alike.pid not in {found.pid for found in processes.supervisors()}
        attempt.rename(tmp_path / "moved")
        assert processes.supervisors()[identity] == str(attempt)
    finally:
        look_alike.kill()
        look_alike.wait()
        (tmp_path / "moved" / "go").touch()
        asyncio.run(processes.wait(identity))
    assert identity not in processes.supervisors()


def test_end_marked_matches_the_whole_entry_only(
    processes: LinuxProcesses, mark: str, started: list[subprocess.Popen[bytes]]
) -> None:
    started.append(spawn("exec sleep 60", env=as_env(mark + "0"), start_new_session=True))
    started.append(spawn("exec sleep 60", env={"X" + k: v for k, v in as_env(mark).items()}))
    assert asyncio.run(processes.end_marked(mark)) == 0
    for child in started:
        assert child.poll() is None
        child.kill()
        child.wait(60)


def test_end_marked_takes_descendants_that_scrubbed_their_environment(
    processes: LinuxProcesses, mark: str, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    script = f"env -i setsid sh -c 'echo $$ > {tmp_path}/tool; exec /bin/sleep 60' & wait"
    started.append(spawn(script, env=as_env(mark), start_new_session=True))
    tool = eventually_number(tmp_path / "tool")
    assert asyncio.run(processes.end_marked(mark)) >= 2
    started[0].wait(60)
    assert processes.identify(tool) is None


def test_end_marked_takes_the_session_of_what_it_finds(
    processes: LinuxProcesses, mark: str, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """An orphan that scrubbed its environment but stayed in the agent's session."""
    script = f"(env -i sh -c 'echo $$ > {tmp_path}/orphan; exec /bin/sleep 60' &) ; exec sleep 60"
    started.append(spawn(script, env=as_env(mark), start_new_session=True))
    orphan = eventually_number(tmp_path / "orphan")
    eventually_is(started[0].pid, "sleep")  # Now the subshell is gone.
    assert asyncio.run(processes.end_marked(mark)) == 2
    started[0].wait(60)
    assert processes.identify(orphan) is None


def test_end_marked_kills_what_ignores_term(
    processes: LinuxProcesses, mark: str, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    script = f"trap '' TERM; echo $$ > {tmp_path}/up; while :; do sleep 0.05; done"
    started.append(spawn(script, env=as_env(mark), start_new_session=True))
    eventually_number(tmp_path / "up")
    began = time.monotonic()
    assert asyncio.run(processes.end_marked(mark, seconds=0.3)) >= 1
    assert time.monotonic() - began >= 0.3
    assert started[0].wait(60) == -signal.SIGKILL


def test_end_marked_spares_its_caller_and_those_above(mark: str, tmp_path: Path) -> None:
    """An engine that runs inside an agent, and so carries the mark itself."""
    code = f"""
import asyncio, subprocess, sys
from agentforge.adapters.host.processes import LinuxProcesses
child = subprocess.Popen(["sleep", "60"])
print(asyncio.run(LinuxProcesses("unused").end_marked({mark!r})), child.wait())
"""
    script = f'{sys.executable} -c "$0"; echo survived'
    done = subprocess.run(
        ["sh", "-c", script, code],
        env={"PATH": os.environ["PATH"], **as_env(mark)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "1 -15\nsurvived\n"


INHERITED = """
import sys
from agentforge.adapters.host.processes import LinuxProcesses
print(sorted(LinuxProcesses(sys.argv[1]).inherited("AGENTFORGE_ATTEMPT")))
"""


def test_variable_of_an_ancestor_is_found_although_the_process_has_another_environment() -> None:
    """The outer shell has one mark, the inner one another, and the process itself none."""
    inner = 'env -i "$0" -c "$1" "$2"; :'
    outer = 'AGENTFORGE_ATTEMPT=inner/1 sh -c "$0" "$@"; :'
    said = subprocess.run(
        ["sh", "-c", outer, inner, sys.executable, INHERITED, SUPERVISOR],
        env={"PATH": os.environ["PATH"], "AGENTFORGE_ATTEMPT": "outer/1", "AGENTFORGE_ATTEMPT_PATH": "x"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert said.stdout == "['inner/1', 'outer/1']\n"


def test_process_that_no_marked_one_started_inherits_nothing(processes: LinuxProcesses) -> None:
    assert processes.inherited("AGENTFORGE_NO_SUCH_VARIABLE") == frozenset()
