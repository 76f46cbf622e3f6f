"""The supervisor's record of an agent: exit, output, input, environment, failure to start."""

import json
import marshal
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .attempt_run import ENV, SUPERVISOR, AttemptRun, eventually, no_leftover_processes, python, stat


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[AttemptRun]:
    with no_leftover_processes():
        run = AttemptRun(tmp_path)
        yield run
        run.close()


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_code_of_the_agent_is_recorded(attempt: AttemptRun, code: int) -> None:
    record = attempt.shell(f"echo working; exit {code}")
    assert (record["status"], record["exit_code"], record["signal"]) == ("exited", code, None)
    assert (record["killed"], record["error"], record["output_bytes"]) == (0, None, 8)
    assert attempt.output.read_text() == "working\n"


def test_agent_killed_by_a_signal_is_signaled(attempt: AttemptRun) -> None:
    record = attempt.shell("kill -KILL $$")
    assert (record["status"], record["exit_code"], record["signal"]) == ("signaled", None, 9)


def test_duration_and_times_are_recorded(attempt: AttemptRun) -> None:
    began = time.monotonic()
    record = attempt.shell("sleep 0.2")
    took = (time.monotonic() - began) * 1000
    assert 200 <= record["duration_ms"] <= took
    assert record["started_at"] < record["ended_at"]
    assert record["started_at"].endswith("Z")


def test_agent_file_names_the_agent(attempt: AttemptRun) -> None:
    attempt.start("sleep", "30")
    pid = attempt.agent_pid()
    assert json.loads(attempt.agent.read_text()) == {"pid": pid, "start_time": stat(pid)[19]}
    assert stat(pid)[2:4] == [str(pid), str(pid)]  # In a session and a group of its own.


def test_output_is_capped_and_the_total_counted(attempt: AttemptRun) -> None:
    record = attempt.run(*python("print('x' * 9999)"), output_cap=1000)
    assert attempt.output.read_bytes() == b"x" * 1000
    assert (record["output_bytes"], record["output_truncated"]) == (10_000, True)


def test_last_lines_are_kept_when_there_is_no_room_for_all(attempt: AttemptRun) -> None:
    lines = "for n in range(1000): print('line', n)"
    record = attempt.run(*python(lines), output_cap=100)
    kept = attempt.output.read_text()
    assert record["output_truncated"]
    assert kept.startswith("line 0\nline 1\n")
    assert kept.endswith("\nline 998\nline 999\n")


def test_of_a_flood_only_the_beginning_and_the_end_are_kept(attempt: AttemptRun) -> None:
    flood = "import sys\nfor n in range(200_000): print('line', n)\nprint('the end')"
    attempt.run(*python(flood), output_cap=5000)
    kept = attempt.output.read_bytes()
    assert kept[:5000].startswith(b"line 0\n")
    assert kept.endswith(b"line 199999\nthe end\n")
    assert len(kept) < 5000 + 262144 + 1


def test_output_that_just_fits_the_cap_is_not_truncated(attempt: AttemptRun) -> None:
    record = attempt.run(*python("print('x' * 999)"), output_cap=1000)
    assert (record["output_bytes"], record["output_truncated"]) == (1000, False)


def test_ansi_and_binary_output_is_untouched(attempt: AttemptRun) -> None:
    content = bytes(range(256)) + b"\x1b[31mred\x1b[0m\r\n\xff\xfe\x00tail"
    (attempt.folder / "content").write_bytes(content)
    attempt.run("cat", "content")
    assert attempt.output.read_bytes() == content


def test_stdout_and_stderr_come_in_their_order(attempt: AttemptRun) -> None:
    attempt.shell("echo 1; echo 2 >&2; echo 3; echo 4 >&2")
    assert attempt.output.read_text() == "1\n2\n3\n4\n"


def test_stdin_is_delivered_without_a_file(attempt: AttemptRun) -> None:
    prompt = "do it, gründlich\n" * 50_000
    attempt.run("cat", stdin=prompt, output_cap=10_000_000)
    assert attempt.output.read_text() == prompt
    assert {path.name for path in attempt.folder.iterdir()} == {
        *("claim", "agent.json", "output.log", "exit.json", "events.jsonl")
    }


def test_descriptors_are_readable_by_the_agent_only_under_their_numbers(attempt: AttemptRun) -> None:
    script = "cat <&3; cat <&9; ls /proc/self/fd | tr '\\n' ' '"
    attempt.shell(script, descriptors={"3": "three\n", "9": "nine\n"})
    assert attempt.output.read_text().split() == ["three", "nine", "0", "1", "2", "3", "9", "4"] or (
        attempt.output.read_text().startswith("three\nnine\n0 1 2 3 ")
    )


def test_without_stdin_the_agent_reads_nothing(attempt: AttemptRun) -> None:
    record = attempt.run("cat")
    assert (record["exit_code"], record["output_bytes"]) == (0, 0)


def test_environment_is_exactly_the_given_one_and_the_mark(attempt: AttemptRun) -> None:
    attempt.run("env", "-0", env={**ENV, "TWO": "a b\nc"})
    entries = set(attempt.output.read_text().strip("\0").split("\0"))
    assert entries == {f"PATH={ENV['PATH']}", "TWO=a b\nc", attempt.mark}


def test_arguments_are_utf8_in_any_locale(attempt: AttemptRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.ISO-8859-1")
    attempt.run("printf", "%s", "größer → ☃")
    assert attempt.output.read_text() == "größer → ☃"


def test_agent_gets_clean_signals_and_no_foreign_descriptors(attempt: AttemptRun) -> None:
    attempt.shell("grep -E 'SigIgn|SigBlk' /proc/self/status; ls /proc/self/fd | wc -l")
    _, blocked, _, ignored, descriptors = attempt.output.read_text().split()
    # 32 and 33 belong to the C library; a parent such as make hands them on, and no program may set them.
    libc = 1 << 31 | 1 << 32
    assert (int(blocked, 16), int(ignored, 16) & ~libc) == (0, 0)
    assert descriptors == "4"  # 0, 1, 2 and the listing's.


def test_agent_closing_its_output_early_lives_on(attempt: AttemptRun) -> None:
    record = attempt.shell("echo last; exec >&- 2>&-; sleep 0.3; exit 7")
    assert (record["status"], record["exit_code"]) == ("exited", 7)
    assert record["duration_ms"] >= 300
    assert attempt.output.read_text() == "last\n"


def test_flood_of_output_costs_no_memory(attempt: AttemptRun) -> None:
    supervisor = attempt.start(
        "sh", "-c", "head -c 300000000 /dev/zero; echo done > done; sleep 30", output_cap=5000
    )
    eventually((attempt.folder / "done").exists)
    status = Path(f"/proc/{supervisor.pid}/status").read_text()
    peak_kb = int(status.partition("VmHWM:")[2].split()[0])
    supervisor.terminate()
    record = attempt.outcome()
    assert (record["output_bytes"], attempt.output.stat().st_size) == (300_000_000, 5000)
    assert peak_kb < 40_000


@pytest.mark.parametrize(
    ("argv", "changes", "words"),
    [
        (["no-such-program"], {}, "can't start no-such-program: no such program on the agent's PATH"),
        (["./plain"], {}, "can't start ./plain: it is not executable"),
        (
            ["true"],
            {"cwd": "/nowhere/at/all"},
            "can't enter the working directory /nowhere/at/all: No such file",
        ),
        (["echo", "a\0b"], {}, "can't start echo: embedded null byte"),
        (["echo", "x" * 3_000_000], {}, "can't start echo: Argument list too long"),
    ],
)
def test_spawn_failure_says_why(
    attempt: AttemptRun, argv: list[str], changes: dict[str, str], words: str
) -> None:
    (attempt.folder / "plain").write_text("text")
    record = attempt.run(*argv, **changes)
    assert (record["status"], record["exit_code"], record["signal"]) == ("spawn_failed", None, None)
    assert words in record["error"]
    assert not attempt.agent.exists()


def test_output_that_exists_already_is_not_written_to(attempt: AttemptRun) -> None:
    (attempt.folder / "precious").write_text("kept")
    attempt.output.symlink_to(attempt.folder / "precious")
    record = attempt.shell("echo over")
    assert record["status"] == "spawn_failed"
    assert "can't write the output to output.log: File exists" in record["error"]
    assert (attempt.folder / "precious").read_text() == "kept"


def test_exit_record_is_retried_until_it_can_be_placed(attempt: AttemptRun) -> None:
    attempt.exit.mkdir()
    attempt.start("true")
    eventually(attempt.exit.is_file)
    assert attempt.outcome()["status"] == "exited"
    assert len(list(attempt.folder.glob("exit.json.*.refused"))) == 1


# Plays the engine on the small disk.
ENGINE = """
import json, marshal, os, socket, subprocess, sys
spec, here = json.loads(sys.argv[1]), os.stat(".")
spec["place"] |= {"device": here.st_dev, "inode": here.st_ino}
ours, theirs = socket.socketpair()
child = subprocess.Popen([sys.executable, "-I", "-S", sys.argv[2], "."], stdin=theirs)
theirs.close()
ours.recv(1)
ours.sendall(marshal.dumps(spec))
ours.close()
sys.exit(child.wait())
"""


def test_full_disk_does_not_cost_the_outcome(attempt: AttemptRun) -> None:
    (attempt.folder / "disk").mkdir()
    spec = json.dumps(marshal.loads(attempt.spec("sh", "-c", "head -c 200000 /dev/zero; exit 5")))
    # In a mount namespace of its own, so that nothing stays mounted.
    script = 'mount -t tmpfs -o size=64k none disk || exit 77; cd disk; "$@" && cp exit.json ../seen.json'
    command = ["unshare", "-m", "sh", "-c", script, "sh", *python(ENGINE), spec, str(SUPERVISOR)]
    done = subprocess.run(command, cwd=attempt.folder, timeout=60, check=False).returncode
    if done == 77 or os.geteuid() != 0:
        pytest.skip("privileges: mounting a small disk needs root")
    record = json.loads((attempt.folder / "seen.json").read_text())
    assert (record["status"], record["exit_code"], record["output_bytes"]) == ("exited", 5, 200_000)
    assert record["output_truncated"]
    assert "No space left on device" in record["error"]
