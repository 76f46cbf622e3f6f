"""A forked process does what a new one does."""

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.surface.terminal import MODULE_CALL, WRITE_RESULT, Project, wait_for
from tests.surface.warm_program import can_run, warm_program

TIMES = re.compile(r'"(timestamp|duration_ms)": [^,]*')


@pytest.mark.parametrize("arguments", [("run", "-p", "p.yaml", "-s", "s"), ("status", "x"), ("--what",), ()])
def test_forked_process_prints_and_returns_what_a_new_one_does(
    project: Project, arguments: tuple[str, ...]
) -> None:
    project.pipeline(f'say=echo "$GIVEN"; pwd; {WRITE_RESULT}')
    env = {"GIVEN": "schön", "TZ": "Asia/Tokyo"}
    forked = project.call(*arguments, env=env)
    shutil.rmtree(project.root / ".claude", ignore_errors=True)
    new = project.call_program(sys.executable, "-m", "agentforge", *arguments, env=env)
    assert (forked.code, forked.lines) == (new.code, new.lines)
    assert TIMES.sub("", forked.err) == TIMES.sub("", new.err).replace(MODULE_CALL, "agentforge")


def test_variables_that_python_reads_at_its_start_need_a_new_process(project: Project) -> None:
    assert can_run(project.env)
    for name in ("LANG", "LC_ALL", "PYTHONPATH", "PYTHONIOENCODING"):
        assert not can_run({**project.env, name: "other"})
    assert not can_run(project.env, "/some")
    assert can_run({**project.env, "PYTHONPATH": "/some"}, "/some")


def test_process_that_takes_too_long_is_killed_and_the_next_one_works(
    project: Project, tmp_path: Path
) -> None:
    project.pipeline("wait=sleep 60")
    with pytest.raises(subprocess.TimeoutExpired):
        warm_program().run(("run", "-p", "p.yaml", "-s", "s"), project.root, project.env, 0.5)
    assert project.call("version").code == 0


def test_commands_of_several_threads_are_not_confused(project: Project) -> None:
    commands, codes = [("version",), ("--what",)] * 3, [0, 2] * 3
    with ThreadPoolExecutor(len(commands)) as pool:
        assert list(pool.map(lambda words: project.call(*words).code, commands)) == codes


@pytest.mark.skipif(sys.platform != "linux", reason="platform: forked programs need Linux")
def test_launcher_passes_all_that_a_command_has(project: Project, tmp_path: Path) -> None:
    launcher = tmp_path / "agentforge"
    warm_program().put_launcher(launcher)
    project.pipeline(f'say=echo "$GIVEN"; pwd; {WRITE_RESULT}')
    done = project.call_program(str(launcher), "run", "-p", "p.yaml", "-s", "s", env={"GIVEN": "schön"})
    assert done.code == 0, done.err
    output = project.run_dir("s") / "stage-00-say/iterations/001/output.md"
    assert output.read_text() == f"schön\n{project.root}\n"
    wrong = project.call_program(str(launcher), "--what")
    assert (wrong.code, "No such option" in wrong.err) == (2, True)


@pytest.mark.skipif(sys.platform != "linux", reason="platform: forked programs need Linux")
def test_signal_to_a_launcher_reaches_its_process(project: Project, tmp_path: Path) -> None:
    launcher = tmp_path / "agentforge"
    warm_program().put_launcher(launcher)
    project.pipeline(f"work*1000=touch started; {WRITE_RESULT}")
    with project.started_program(str(launcher), "run", "-p", "p.yaml", "-s", "s") as started:
        wait_for((project.root / "started").exists, "the agent")
        started.signal(signal.SIGTERM)
        assert started.end().code == 143


def call_by(name: str) -> int:
    """A file with the call of a command, as a launcher sends it."""
    call = {"argv": [name, "version"], "cwd": "/", "env": {}, "session": False}
    file = os.memfd_create("call")
    os.pwrite(file, json.dumps(call).encode(), 0)
    return file


@pytest.mark.skipif(sys.platform != "linux", reason="platform: forked programs need Linux")
@pytest.mark.parametrize("killed", ["before it asks", "before it knows the pid", "before it reads the pid"])
def test_launcher_that_is_killed_does_not_end_the_server(killed: str, project: Project) -> None:
    server = warm_program()._server
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as launcher, open(os.devnull, "r+b") as null:
        launcher.connect(server._address)
        if killed != "before it asks":
            call = call_by(project.env["HOME"])
            socket.send_fds(launcher, [b"call"], [call, *(null.fileno(),) * 3])
            os.close(call)
        if killed == "before it reads the pid":
            select.select([launcher], [], [])
    assert [project.call("version").code for _ in range(3)] == [0, 0, 0]
