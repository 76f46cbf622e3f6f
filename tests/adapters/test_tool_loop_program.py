"""The tool loop as a separate program: what it prints, how it ends, and what its commands can't see."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.adapters.api_tasks import FORMATS, KEY, WORK, task
from tests.sampling import one_in

from agentforge.testing.model_server import Call, Fault, ModelServer, Script, Turn
from agentforge.tool_loop.task import CommandRules, LoopEnded, ModelTask, SessionBegun, decode, program_argv

VARIABLE = "SOME_KEY"
ANYTHING = CommandRules(("*",))


def start(work: ModelTask, **env: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        program_argv(sys.executable, "run", VARIABLE),
        cwd=work.files.workspace,
        env={"PATH": "/usr/bin:/bin", VARIABLE: KEY, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(work))
    process.stdin.close()
    return process


def finish(process: "subprocess.Popen[bytes]", seconds: float = 30.0) -> tuple[int, list[Any], str]:
    assert process.stdout is not None
    try:
        code = process.wait(seconds)
    finally:
        process.kill()
        process.wait()
    text = process.stdout.read().decode()
    process.stdout.close()
    return code, [decode(line) for line in text.splitlines()], text


def shell(line: str) -> Turn:
    return Turn("", (Call("run_command", {"command": ["sh", "-c", line]}),))


def living_in_group(group: int) -> list[int]:
    """Zombies don't count, even if they have not been reaped yet."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _parent, its_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found.append(int(path.parent.name))
    return found


def eventually(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it didn't happen in time"
        time.sleep(0.02)


DONE = Turn("", (Call("complete", {"summary": "ok", "decision": "stop"}),))


@pytest.mark.parametrize("form", one_in(2, reversed(FORMATS)))
def test_program_prints_events_and_the_outcome_last(
    model_server: ModelServer, form: str, tmp_path: Path
) -> None:
    code, events, text = finish(start(task(model_server, WORK, form, tmp_path)))
    assert code == 0
    assert isinstance(events[0], SessionBegun)
    assert isinstance(events[-1], LoopEnded)
    assert events[-1].outcome == "completed"
    assert None not in events, text
    assert (tmp_path / "work/hello.txt").exists()


def test_failed_task_is_a_failed_program(model_server: ModelServer, tmp_path: Path) -> None:
    script = replace(WORK, faults=(Fault(401),))
    code, events, _ = finish(start(task(model_server, script, "openai", tmp_path)))
    assert code == 1
    assert events[-1].failure.kind == "provider_auth"


def test_files_in_the_workspace_cannot_shadow_our_modules(model_server: ModelServer, tmp_path: Path) -> None:
    work = task(model_server, WORK, "openai", tmp_path)
    folder = Path(work.files.workspace)
    for name in ("agentforge", "pydantic_ai", "msgspec", "json", "asyncio", "sitecustomize", "usercustomize"):
        (folder / f"{name}.py").write_text("raise SystemExit('shadowed')")
    code, events, text = finish(start(work, PYTHONPATH=str(folder), PYTHONSTARTUP=str(folder / "json.py")))
    assert code == 0, text
    assert events[-1].outcome == "completed"


def test_commands_of_the_model_find_the_key_nowhere(model_server: ModelServer, tmp_path: Path) -> None:
    look = f"env; tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/$PPID/cmdline; echo ${VARIABLE}"
    work = task(model_server, Script((shell(look), DONE)), "openai", tmp_path, commands=ANYTHING)
    code, _, text = finish(start(work))
    assert code == 0
    assert KEY not in text
    said = model_server.requests("t")[-1].results[0]
    assert "PATH=" in said
    assert KEY not in said


@pytest.mark.skipif(sys.platform != "linux", reason="platform: looks into /proc")
@pytest.mark.parametrize(
    ("number", "form"),
    [
        (signal.SIGTERM, "openai"),
        pytest.param(signal.SIGINT, "openai", marks=pytest.mark.soak),
        pytest.param(signal.SIGTERM, "anthropic", marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, "anthropic", marks=pytest.mark.soak),
    ],
)
def test_signal_within_a_command_ends_both_at_once_and_nothing_is_written_late(
    model_server: ModelServer, form: str, tmp_path: Path, number: int
) -> None:
    line = (
        "echo $$ > started; (trap '' TERM INT; sleep 120; echo late > late) & sleep 120; echo later > later"
    )
    work = task(model_server, Script((shell(line), DONE)), form, tmp_path, commands=ANYTHING)
    process = start(work)
    started = Path(work.files.workspace) / "started"
    eventually(lambda: started.exists() and started.read_text())
    process.send_signal(number)
    code, events, _ = finish(process)
    assert code == 143
    assert not any(isinstance(event, LoopEnded) for event in events)
    # A process that was killed ends a little later.
    eventually(lambda: living_in_group(int(started.read_text())) == [])
    assert sorted(path.name for path in started.parent.iterdir()) == ["started"]
    # The model's tool call has no answer yet: a later attempt resumes from here.
    session = next(Path(work.files.sessions).iterdir())
    assert json.loads(session.read_text())["messages"][-1]["kind"] == "response"


def test_unreadable_task_is_reported(tmp_path: Path) -> None:
    ran = subprocess.run(
        program_argv(sys.executable, "run"),
        input=b"{}",
        capture_output=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    ended = decode(ran.stdout.decode())
    assert isinstance(ended, LoopEnded)
    assert ran.returncode == 1
    assert ended.failure is not None
    assert "can't read the task" in ended.failure.message
