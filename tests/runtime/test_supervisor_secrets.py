"""Secrets never reach the files of an attempt, however the agent prints them."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.runtime.supervisor import StreamRedactor

from .attempt_run import (
    LOADED,
    SUPERVISOR,
    AttemptRun,
    ManualClock,
    eventually,
    no_leftover_processes,
    python,
)

KEY = "sk-0123456789"
PR_GET_DUMPABLE = 3


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[AttemptRun]:
    with no_leftover_processes():
        run = AttemptRun(tmp_path)
        yield run
        run.close()


def passed(secrets: list[str], *chunks: bytes) -> list[bytes]:
    hider = StreamRedactor(secrets)
    return [*(hider.pass_on(chunk) for chunk in chunks), hider.rest()]


@pytest.mark.parametrize(
    ("secrets", "chunks", "out"),
    [
        ([KEY], [b"key sk-0123456789!"], [b"key [secret]!", b""]),
        ([KEY], [b"key sk-01", b"23456789!"], [b"key ", b"[secret]!", b""]),
        ([KEY], [b"key sk-01", b"X"], [b"key ", b"sk-01X", b""]),
        ([KEY], [b"key sk-01"], [b"key ", b"sk-01"]),
        ([KEY], [b"k", b"s", b"s", b"k-"], [b"k", b"", b"s", b"", b"sk-"]),
        ([KEY, KEY + "-long"], [KEY.encode(), b"-long."], [b"", b"[secret].", b""]),
        ([KEY, KEY + "-long"], [KEY.encode(), b"-lo."], [b"", b"[secret]-lo.", b""]),
        ([KEY, KEY + "-long"], [KEY.encode()], [b"", b"[secret]"]),
        (["aaab"], [b"aaaaab", b"aa"], [b"aa[secret]", b"", b"aa"]),
        (["größe-8x"], [b"gr\xc3", b"\xb6\xc3\x9fe-8x"], [b"", b"[secret]", b""]),
        ([], [b"sk-0123456789"], [b"sk-0123456789", b""]),
        ([""], [b"any"], [b"any", b""]),
    ],
)
def test_what_is_passed_on_and_what_is_held_back(
    secrets: list[str], chunks: list[bytes], out: list[bytes]
) -> None:
    assert passed(secrets, *chunks) == out


SOME_SECRETS = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4)


@given(SOME_SECRETS, st.lists(st.text("abc", max_size=12).map(str.encode), max_size=8))
def test_however_a_stream_is_cut_the_same_is_hidden(secrets: list[str], chunks: list[bytes]) -> None:
    longest_first = sorted(set(secrets), key=len, reverse=True)
    whole = re.sub("|".join(longest_first).encode(), b"[secret]", b"".join(chunks))
    assert b"".join(passed(secrets, *chunks)) == whole


@given(SOME_SECRETS, st.lists(st.text("abc", max_size=12).map(str.encode), max_size=8))
def test_only_the_beginning_of_a_secret_is_held_back(secrets: list[str], chunks: list[bytes]) -> None:
    hider = StreamRedactor(secrets)
    for chunk in chunks:
        hider.pass_on(chunk)
        assert any(secret.encode().startswith(hider.held) for secret in secrets)
        assert hider.held not in [secret.encode() for secret in secrets] or any(
            len(secret.encode()) > len(hider.held) and secret.encode().startswith(hider.held)
            for secret in secrets
        )


def test_secrets_are_hidden_in_the_output(attempt: AttemptRun) -> None:
    record = attempt.shell(f"echo before {KEY} after; printf sk-0123; sleep 0.1; echo 456789", secrets=[KEY])
    assert attempt.output.read_text() == "before [secret] after\n[secret]\n"
    assert record["output_bytes"] == len(f"before {KEY} after\n{KEY}\n")


def test_secrets_are_hidden_in_the_errors_too(attempt: AttemptRun) -> None:
    attempt.shell(f"echo {KEY} >&2", secrets=[KEY], separate_errors=True)
    assert (attempt.output.read_text(), attempt.errors.read_text()) == ("", "[secret]\n")


def test_the_last_words_are_kept_when_they_only_began_like_a_secret(attempt: AttemptRun) -> None:
    attempt.shell("printf sk-01", secrets=[KEY])
    assert attempt.output.read_text() == "sk-01"


def test_a_cap_in_the_middle_of_a_secret_shows_nothing_of_it(attempt: AttemptRun) -> None:
    attempt.shell(f"printf xxxx{KEY}", secrets=[KEY], output_cap=8)
    assert attempt.output.read_text() == "xxxx[sec"


def test_output_without_secrets_is_there_at_once(attempt: AttemptRun) -> None:
    attempt.start("sh", "-c", "echo working; sleep 30", secrets=[KEY])
    eventually(lambda: attempt.output.exists() and attempt.output.read_text() == "working\n")


def test_an_agent_killed_in_the_middle_of_a_secret_leaves_at_most_its_beginning(attempt: AttemptRun) -> None:
    supervisor = attempt.start("sh", "-c", "printf 'x sk-012345678'; sleep 30", secrets=[KEY])
    eventually(lambda: attempt.output.exists() and attempt.output.read_text() == "x ")
    supervisor.terminate()
    attempt.outcome()
    assert attempt.output.read_text() == "x sk-012345678"


def test_the_values_are_gone_from_the_disk_once_the_attempt_is_claimed(attempt: AttemptRun) -> None:
    attempt.start("sh", "-c", f"echo {KEY}; sleep 30", secrets=[KEY])
    attempt.agent_pid()
    found = [path.name for path in attempt.folder.iterdir() if KEY in path.read_text()]
    assert found == []


def test_a_flood_full_of_secrets_is_hidden_(attempt: AttemptRun) -> None:
    secrets = [f"{KEY}-{number}" for number in range(20)]
    attempt.run(*python(f"print('{KEY}-7 ' * 200_000)"), secrets=secrets, output_cap=10_000_000)
    assert attempt.output.read_text() == "[secret] " * 200_000 + "\n"


def test_errors_are_kept_apart_only_if_asked_for(attempt: AttemptRun) -> None:
    record = attempt.shell("echo out; echo err >&2", separate_errors=True)
    assert (attempt.output.read_text(), attempt.errors.read_text()) == ("out\n", "err\n")
    assert record["output_bytes"] == 4
    assert json.loads(attempt.exit.read_text())["error"] is None


def test_errors_are_capped_as_the_output_is(attempt: AttemptRun) -> None:
    record = attempt.shell("echo 123456789 >&2", separate_errors=True, output_cap=5)
    assert attempt.errors.read_text() == "12345"
    assert record["output_truncated"]


def test_errors_count_as_a_sign_of_life(attempt: AttemptRun) -> None:
    clock = ManualClock(attempt.folder / "clock")
    lines = "for n in 1 2 3; do while [ ! -e go-$n ]; do sleep 0.02; done; echo $n >&2; done"
    attempt.start("sh", "-c", lines, program=clock.program, separate_errors=True, idle_timeout=1.5)
    attempt.agent_pid()
    for number in range(1, 4):
        clock.advance(8)
        (attempt.folder / f"go-{number}").touch()
        eventually(lambda said=f"{number}\n": said in attempt.errors.read_text() or attempt.exit.exists())
    assert attempt.outcome()["status"] == "exited"


def test_other_processes_cannot_read_its_memory_when_it_asks_for_the_secrets(attempt: AttemptRun) -> None:
    """Without a specification it exits, and tells before whether it could be dumped."""
    told = f"""{LOADED}
import ctypes
supervisor.main()
print(ctypes.CDLL(None).prctl({PR_GET_DUMPABLE}, 0, 0, 0, 0))
"""
    ours, theirs = socket.socketpair()
    with theirs:
        program = [sys.executable, "-I", "-S", "-c", told, str(SUPERVISOR)]
        child = subprocess.Popen(program, cwd=attempt.folder, env={}, stdin=theirs, stdout=subprocess.PIPE)
    attempt.supervisors.append(child)
    with ours:
        assert ours.recv(1) == b"+"
    assert child.communicate(timeout=60)[0] == b"0\n"
