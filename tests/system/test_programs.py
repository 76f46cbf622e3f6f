"""Short helper programs: real processes, ended on time with everything they started."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.system.programs import NoExit, Program, ProgramResult, run, run_async

Run = Callable[[Program], ProgramResult]

STARTS_A_CHILD = 'sleep 60 & echo $! > "$0"; wait'
"""Given a file, leaves the pid of its child there."""


def sh(script: str, *arguments: str, timeout: float = 30.0, **more: object) -> Program:
    return Program(("sh", "-c", script, *arguments), timeout, **more)  # type: ignore[arg-type]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def timed_out(go: Run, script: str, note: Path, **more: object) -> tuple[ProgramResult, float]:
    """Run a program until its timeout, which it needs to write the note before: it gets more on a busy
    machine. Returns the timeout, too."""
    for timeout in (0.5, 2.0, 8.0, 32.0):
        ended = go(sh(script, str(note), timeout=timeout, **more))
        assert (ended.code, ended.reason) == (None, NoExit.TIMED_OUT)
        if note.exists() and note.read_text().endswith("\n"):
            return ended, timeout
    raise AssertionError("it didn't write the note in time")


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture(params=["sync", "async"])
def go(request: pytest.FixtureRequest) -> Run:
    if request.param == "sync":
        return run
    return lambda program: asyncio.run(run_async(program))


@pytest.mark.parametrize("code", [0, 1, 77])
def test_exit_code_and_both_streams(go: Run, code: int) -> None:
    ended = go(sh(f"echo out; echo a >&2; echo err >&2; exit {code}"))
    assert (ended.code, ended.output, ended.errors) == (code, "out\n", "a\nerr\n")
    assert (ended.reason, ended.truncated, ended.last_error) == (None, False, "err")


def test_signal_is_a_negative_code(go: Run) -> None:
    ended = go(sh("kill -9 $$"))
    assert (ended.code, ended.status) == (-9, 137)


def test_merged_streams_keep_their_order(go: Run) -> None:
    ended = go(sh("echo 1; echo 2 >&2; echo 3", merged=True))
    assert (ended.output, ended.errors) == ("1\n2\n3\n", "")


def test_folder_environment_and_stdin_match_the_spec(go: Run, tmp_path: Path) -> None:
    ended = go(sh('pwd; echo "$A-$HOME"; cat', cwd=str(tmp_path), env={"A": "1", "PATH": os.environ["PATH"]}))
    assert ended.output == f"{tmp_path}\n1-\n"


def test_output_that_is_not_text_is_decoded_with_replacement(go: Run) -> None:
    ended = go(sh(r"printf 'a\377b'"))
    assert (ended.stdout, ended.output) == (b"a\xffb", "a\ufffdb")


def test_program_runs_in_a_new_session(go: Run) -> None:
    code = "import os; print(os.getsid(0) == os.getpid() == os.getpgrp())"
    assert go(Program((sys.executable, "-c", code), 30.0)).output == "True\n"


def test_missing_program(go: Run) -> None:
    ended = go(Program(("/no/such/program",), 5.0))
    assert (ended.code, ended.reason) == (None, NoExit.MISSING)
    assert ended.problem == "No such file or directory"


def test_missing_folder(go: Run, tmp_path: Path) -> None:
    assert go(sh("true", cwd=str(tmp_path / "none"))).reason is NoExit.MISSING


def test_program_that_may_not_be_run(go: Run, tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\n")
    ended = go(Program((str(tmp_path / "program"),), 5.0))
    assert (ended.code, ended.reason, ended.problem) == (None, NoExit.NOT_PERMITTED, "Permission denied")


@pytest.mark.parametrize("content", ["no program", "#!/bin/sh\n"])
def test_failed_start_is_reported(go: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / "program").write_text(content)
    (tmp_path / "program").chmod(0o755)
    nul = () if content == "no program" else ("\0",)
    ended = go(Program((str(tmp_path / "program"), *nul), 5.0))
    assert (ended.code, ended.reason) == (None, NoExit.NOT_STARTED)
    assert ended.problem


def test_timeout_kills_the_whole_group_and_keeps_its_output(go: Run, tmp_path: Path) -> None:
    note = tmp_path / "child"
    ended, timeout = timed_out(go, f"echo said; {STARTS_A_CHILD}", note)
    assert ended.output == "said\n"
    assert ended.problem == f"timed out after {timeout:g} s"
    eventually(lambda: not lives(int(note.read_text())))


def test_program_that_ignores_signals_is_killed(go: Run) -> None:
    assert go(sh("trap '' TERM INT HUP; while :; do sleep 1; done", timeout=0.3)).reason is NoExit.TIMED_OUT


def test_output_is_bounded_and_the_program_continues(go: Run) -> None:
    ended = go(sh("echo first; yes | head -c 3000000; echo last; echo problem >&2; exit 3", max_output=1000))
    assert (ended.code, ended.truncated, ended.errors) == (3, True, "problem\n")
    assert ended.output.startswith("first\ny\n")
    assert "\n[2999011 bytes left out]\n" in ended.output
    assert ended.output.endswith("y\nlast\n")
    assert len(ended.stdout) < 1050


def test_output_that_just_fits_is_not_truncated(go: Run) -> None:
    ended = go(sh("printf 12345", max_output=6))
    assert (ended.output, ended.truncated) == ("12345", False)


def test_background_process_that_keeps_the_pipes_does_not_hold_up_the_end(go: Run) -> None:
    ended = go(sh("sleep 600 & echo $!"))
    assert ended.code == 0
    child = int(ended.output)
    assert lives(child), "a background process must survive a normal exit"
    os.kill(child, 9)


def test_contained_program_leaves_nothing_in_the_background(go: Run) -> None:
    ended = go(sh("sleep 60 & echo $!", contained=True))
    assert ended.code == 0
    eventually(lambda: not lives(int(ended.output)))


def test_grace_lets_a_program_end_in_order(go: Run, tmp_path: Path) -> None:
    script = 'trap \'echo ended >> "$0"; exit 5\' TERM; echo up > "$0"; while :; do sleep 0.05; done'
    timed_out(go, script, tmp_path / "note", grace=60.0)
    assert (tmp_path / "note").read_text() == "up\nended\n"


def test_large_output_is_whole(go: Run) -> None:
    ended = go(sh("yes | head -c 900000"))
    assert (len(ended.stdout), ended.truncated) == (900_000, False)


def test_cancelling_kills_the_whole_group_before_it_returns(tmp_path: Path) -> None:
    note = tmp_path / "child"

    async def main() -> None:
        going = asyncio.create_task(run_async(sh(STARTS_A_CHILD, str(note))))
        while not note.exists() or not note.read_text().strip():  # noqa: ASYNC110 - another process's file.
            await asyncio.sleep(0.01)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        eventually(lambda: not lives(int(note.read_text())))

    asyncio.run(main())


def test_event_loop_is_not_blocked_while_a_program_runs(tmp_path: Path) -> None:
    advance = tmp_path / "go"

    async def main() -> int:
        turns = 0
        going = asyncio.create_task(run_async(sh('while [ ! -e "$0" ]; do sleep 0.01; done', str(advance))))
        while not going.done():
            turns += 1
            if turns == 5:
                advance.touch()
            await asyncio.sleep(0.01)
        assert going.result().code == 0
        return turns

    assert asyncio.run(main()) >= 5


def test_input_that_can_not_be_stored_is_reported(
    go: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    result = go(Program(("cat",), 10, stdin=b"x"))
    assert result.reason is NoExit.NOT_STARTED
    assert "its input can't be stored: No such file" in result.problem


def test_a_program_reads_its_descriptors(go: Run) -> None:
    """Which hold what neither its command line nor its environment may show."""
    script = 'cat <&3; cat <&4; cat; echo "$0 $1"'
    ended = go(sh(script, "name", "word", stdin=b"in ", descriptors={3: "a\0b ", 4: "ü\n"}))
    assert (ended.code, ended.output) == (0, "a\0b ü\nin name word\n")
