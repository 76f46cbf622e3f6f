"""The JSONL log between processes: one lease, crashed writers, readers beside a writer."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from agentforge.adapters.log.jsonl_log import JsonlLog, verify
from agentforge.adapters.log.lease import LogLease
from agentforge.adapters.log.writer import Buffering
from agentforge.model.errors import RunActive
from agentforge.testing.event_log_contract import lines_of, timer_event, timer_events

_PROCESS = Path(__file__).with_name("log_process.py")


def _start(what: str, path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(_PROCESS), what, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _out(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def _kill_after(process: subprocess.Popen[bytes], reports: int) -> int:
    """Let the writer report so often, kill it without warning, and say what it had acknowledged."""
    acknowledged = 0
    for _ in range(reports):
        acknowledged = int(_out(process).readline())
    process.kill()
    for line in _out(process).read().splitlines():
        acknowledged = int(line)
    process.communicate()
    return acknowledged


@pytest.mark.crash
def test_crashed_writer_leaves_every_acknowledged_event_and_the_chain_intact(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for reports in (1, 3, 20, 90):
        acknowledged = _kill_after(_start("append", path), reports)
        log = JsonlLog(path)
        assert not log.is_held()
        with log.open() as writer:
            seqs = [event.seq for event in writer.replay()]
            assert seqs == list(range(1, len(seqs) + 1))
            assert len(seqs) >= acknowledged
            writer.append(timer_event(len(seqs) + 1))
        report = verify(path)
        assert report.is_intact
        assert report.events == report.lines == len(seqs) + 1


def test_two_processes_on_one_log(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    owner = _start("hold", path)
    try:
        assert _out(owner).readline() == b"held\n"
        log = JsonlLog(path, sleep=lambda _: None)
        assert log.is_held()
        with pytest.raises(RunActive, match="is held by another process"):
            log.open()
    finally:
        owner.communicate(timeout=60)
    assert not log.is_held()
    log.open().close()


def test_short_probe_of_the_lease_does_not_refuse_an_owner(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.touch()
    probe = os.open(path, os.O_RDONLY)
    fcntl.flock(probe, fcntl.LOCK_SH)
    waits = 0

    def wait(_: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 3:
            os.close(probe)

    JsonlLog(path, sleep=wait).open().close()
    assert waits == 3


def test_lease_is_not_inherited_by_programs_that_the_owner_starts(tmp_path: Path) -> None:
    log = JsonlLog(tmp_path / "events.jsonl")
    writer = log.open()
    child = subprocess.Popen(["sleep", "20"], close_fds=False)
    try:
        writer.close()
        assert not log.is_held()
    finally:
        child.kill()
        child.wait()


def test_log_archived_while_waiting_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "run" / "events.jsonl"
    with JsonlLog(path).open() as writer:
        writer.append(timer_event(1))
    old = LogLease(lambda: os.open(path, os.O_RDWR))
    assert old.take()
    moved = False

    def wait(_: float) -> None:
        nonlocal moved
        if not moved:
            moved = True
            path.parent.rename(tmp_path / "aside")
            old.close()

    with JsonlLog(path, sleep=wait).open() as writer:
        assert writer.head.seq == 0
        writer.append(timer_event(1, "new"))
    assert path.read_bytes() == lines_of([timer_event(1, "new")])
    assert (tmp_path / "aside" / "events.jsonl").read_bytes() == lines_of(timer_events(1))


def test_reader_beside_a_writer_sees_whole_events_only(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    process = _start("append", path)
    try:
        assert _out(process).readline()
        reader = JsonlLog(path).reader()
        head, seen = None, list[int]()
        while len(seen) < 500:
            seen += [event.seq for event in reader.events(after=head)]
            assert reader.damage == ()
            head = reader.head
        assert seen == list(range(1, len(seen) + 1))
    finally:
        process.kill()
        process.communicate()


def test_simultaneous_event_writes_from_parallel_branches_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    numbering = threading.Lock()
    with JsonlLog(path, Buffering(events=5)).open() as writer:

        def branch() -> None:
            for _ in range(200):
                with numbering:
                    writer.append(timer_event(writer.head.seq + 1))
                writer.sync() if writer.head.seq % 10 == 0 else writer.flush()

        threads = [threading.Thread(target=branch) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    report = verify(path)
    assert report.is_intact
    assert report.events == 1200
