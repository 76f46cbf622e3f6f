"""What the supervisor does where it can't know, or can't do, what it should."""

import fcntl
import json
import marshal
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentforge.runtime.supervisor import ExitRecordFile, Folder, Lease, Spec

from .attempt_run import SUPERVISOR, AttemptRun, eventually, lives, no_leftover_processes, supervise_with


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[AttemptRun]:
    with no_leftover_processes():
        run = AttemptRun(tmp_path)
        yield run
        run.close()


def test_a_lease_that_can_not_be_looked_at_counts_as_held(tmp_path: Path) -> None:
    """As when there is no descriptor left: an agent isn't ended on a doubt."""
    (tmp_path / "file").touch()
    assert Lease(str(tmp_path / "file" / "events.jsonl"), grace=1.0, now=0.0).is_held()
    assert not Lease(str(tmp_path / "missing" / "events.jsonl"), grace=1.0, now=0.0).is_held()


def test_a_look_at_the_lease_does_not_keep_it(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.touch()
    lease = Lease(str(log), grace=1.0, now=0.0)
    assert not lease.is_held()
    with log.open("a") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert lease.is_held()


def test_processes_that_could_not_be_ended_are_told(attempt: AttemptRun) -> None:
    deaf = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    # A process that even KILL doesn't end can't be made here, so the supervisor is given no time to kill.
    program = supervise_with(KILL_TIMEOUT=0)
    supervisor = attempt.start("sh", "-c", deaf, term_grace=0.1, program=program)
    pid = attempt.number_in("pid")
    supervisor.terminate()
    record = attempt.outcome()
    assert record["status"] == "ended"
    assert record["error"].startswith("can't kill these processes: [")
    assert str(pid) in record["error"]
    # Linux ends it with its supervisor.
    eventually(lambda: not lives(pid))


def test_room_for_the_exit_record_is_taken_before_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record = ExitRecordFile(Folder(Spec(marshal.loads(AttemptRun(tmp_path).spec("true")))))
    assert (tmp_path / "exit.json.draft").stat().st_size == 2048
    assert record.place({"status": "exited"})
    assert json.loads((tmp_path / "exit.json").read_text()) == {"status": "exited"}
    assert not (tmp_path / "exit.json.draft").exists()


def folder_of(attempt: Path) -> Folder:
    """Of a supervisor that has claimed the attempt in this folder, which is the working directory."""
    folder = Folder(Spec(marshal.loads(AttemptRun(attempt).spec("true"))))
    folder.place = {**folder.place, "path": str(attempt)}
    assert folder.take_claim()
    return folder


def replaced_draft(attempt: Path) -> None:
    (attempt / "exit.json.draft").rename(attempt / "kept")
    (attempt / "exit.json.draft").write_text("planted")


def folder_as_record(attempt: Path) -> None:
    (attempt / "exit.json" / "planted").mkdir(parents=True)


@pytest.mark.parametrize("act", [replaced_draft, folder_as_record])
def test_what_an_agent_puts_in_the_place_of_the_exit_record_is_not_an_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    record = ExitRecordFile(folder_of(tmp_path))
    act(tmp_path)
    assert record.place({"status": "exited"})
    assert json.loads((tmp_path / "exit.json").read_text()) == {"status": "exited"}


@pytest.mark.parametrize("kind", ["pipe", "device", "file", "link"])
def test_what_is_in_the_place_of_a_deleted_folder_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    own, claim = tmp_path / "attempt-1", tmp_path / "attempt-1" / "claim"
    own.mkdir()
    monkeypatch.chdir(own)
    folder = folder_of(own)
    own.rename(tmp_path / "moved")
    (tmp_path / "moved" / "claim").rename(tmp_path / "claim")
    own.mkdir()
    match kind:
        case "pipe":
            os.mkfifo(claim)
        case "device":
            claim.symlink_to("/dev/zero")
        case "file":
            claim.write_bytes(bytes(len(folder.claim)))
        case "link":
            claim.symlink_to(tmp_path / "claim")
    with suppress(OSError):
        folder.find_again()
    assert Path.cwd() == tmp_path / "moved"
    claim.unlink()
    (tmp_path / "claim").rename(claim)
    folder.find_again()
    assert Path.cwd() == own


LIMITED = """
import importlib.util, resource, signal, sys
spec = importlib.util.spec_from_file_location("supervisor", sys.argv[1])
supervisor = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supervisor)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
"""


def limited(code: str, *arguments: object, cwd: Path | None = None) -> str:
    """Run the code where files have a limit of 10 bytes, which cuts a write short, as a full disk does."""
    argv = [sys.executable, "-c", LIMITED + code, str(SUPERVISOR), *map(str, arguments)]
    return subprocess.run(argv, cwd=cwd, check=True, timeout=60, capture_output=True, text=True).stdout


def test_an_exit_record_of_which_only_a_part_could_be_written_is_not_placed(tmp_path: Path) -> None:
    code = """
supervisor.RECORD_TRIES = 1
open("claim", "w").close()
folder = supervisor.Folder.__new__(supervisor.Folder)
record = supervisor.ExitRecordFile(folder)
limit()
print(record.place({"status": "exited", "error": "x" * 100}))
"""
    assert limited(code, cwd=tmp_path) == "False\n"
    assert not (tmp_path / "exit.json").exists()


def test_output_of_which_only_a_part_could_be_written_is_said_to_be_cut(tmp_path: Path) -> None:
    code = """
import os
output = supervisor.Output(sys.argv[2], 1000, [])
limit()
os.write(output.write_end, b"0123456789abcdef")
output.drain()
print(output.truncated, output.error)
"""
    assert limited(code, tmp_path / "output.log").startswith("True can't write the output: File too large")
    assert (tmp_path / "output.log").read_bytes() == b"0123456789"


def test_a_claim_of_which_only_a_part_could_be_written_is_not_made(tmp_path: Path) -> None:
    code = """
limit()
try:
    supervisor.write_draft("claim.1", {"mark": "x" * 100})
except OSError as error:
    print(error)
"""
    assert limited(code, cwd=tmp_path) == "short write\n"


def test_input_of_which_only_a_part_could_be_stored_is_an_error(tmp_path: Path) -> None:
    code = """
import os
whole = supervisor.anonymous_file("0123456789")
print(os.read(whole, 100))
limit()
try:
    supervisor.anonymous_file("x" * 100)
except OSError as error:
    print(error.strerror)
"""
    assert limited(code, cwd=tmp_path) == "b'0123456789'\nFile too large\n"


def test_time_in_which_the_supervisor_was_stopped_does_not_count_against_the_timeout(tmp_path: Path) -> None:
    """On a clock of its own: it is stopped for 100 seconds in its first wait."""
    code = """
import os
from types import SimpleNamespace as Made
clock = Made(now=0.0, stops=[100.0], waits=0.0)
wake, _ = os.pipe()
os.set_blocking(wake, False)

def wait(_read, _write, _odd, seconds):
    clock.now += seconds + (clock.stops.pop() if clock.stops else 0.0)
    clock.waits = max(clock.waits, seconds)

class Lease:
    due = property(lambda self: clock.now + 2.0)
    abandoned = staticmethod(lambda now: False)

supervisor.time = Made(monotonic=lambda: clock.now)
supervisor.select = Made(select=wait)
attempt = supervisor.Attempt.__new__(supervisor.Attempt)
attempt.spec = Made(timeout=10.0, idle_timeout=None)
attempt.signals = Made(terms=0, wake=wake)
attempt.lease = Lease()
attempt.outputs, attempt.code, attempt.agent = [], None, None
attempt.clock = supervisor.AttemptClock()
attempt.started = attempt.last_output = 0.0
print(attempt._follow(), clock.now, clock.waits)
"""
    assert limited(code) == "timeout 110.5 0.5\n"
