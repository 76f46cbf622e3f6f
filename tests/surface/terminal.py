"""The real program in real processes, in a separate project and home."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.surface.tmux_server import TmuxServer
from tests.surface.warm_program import WarmProcess, can_run, warm_program

PATIENCE = 90.0
MODULE_CALL = f"{sys.executable} -m agentforge"
"""How hints call the program if the test started it in a process of its own."""

WRITE_RESULT = 'printf \'%s\' \'{"summary":"did it"}\' > "$MOCK_RESULT_FILE"'
"""What an agent does at least: say what it did."""


QUESTION = '{"decision":"ask","questions":[{"id":"db","question":"Which one?","options":["sqlite","redis"]}]}'
ASK_ONCE = f"""if [ -e asked ]; then {WRITE_RESULT}; else
    touch asked; printf '%s' '{QUESTION}' > "$MOCK_RESULT_FILE"; fi"""
"""What an agent does that asks once, and works when it has the answer."""


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def logged(self, level: str = "") -> list[str]:
        """The messages that were logged beside text, of that level or of all."""
        found = re.findall(r"^[\d:]{8} ([A-Z]+) +(.*?)(?: session=\S+)?$", self.err, re.MULTILINE)
        return [message for severity, message in found if level in ("", severity)]

    @property
    def lines(self) -> list[str]:
        """Of stdout, with times of day and spans masked; a column is as wide as with one digit. On a busy
        machine, any run may have waited for a second."""
        masked = re.sub(r"\d\d:\d\d:\d\d", "HH:MM:SS", self.out)
        masked = re.sub(r"\b\d(\d*)s ago  ", lambda age: f"Ns ago  {' ' * len(age[1])}", masked)
        masked = re.sub(r"\b(\d+\.\d|\d+)s\b", "Ns", masked)
        return masked.replace(", stopped for Ns", "").splitlines()


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.home = root / "home"
        self.temporary = root / "tmp"
        self.search = ""
        """The PYTHONPATH of a program from which several tests fork."""
        for folder in (self.root, self.home, self.temporary):
            folder.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TMPDIR": str(self.temporary),
        }

    # -- calling

    def call(
        self, *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None, name: str = ""
    ) -> Done:
        """`name`: the path of the program, if not `python -m agentforge`."""
        whole = {**self.env, **(env or {})}
        if not can_run(whole, self.search):
            line = (name,) if name else (sys.executable, "-m", "agentforge")
            return self.call_program(*line, *arguments, env=env, cwd=cwd)
        program = warm_program(self.search)
        code, out, err = program.run(arguments, cwd or self.root, whole, PATIENCE, name)
        return Done(code, out.decode(), err.decode())

    def environment(self, env: dict[str, str] | None = None) -> dict[str, str]:
        """Of a new process: it searches the folders of this one, too, such as the source with a mutation."""
        whole = {**self.env, **(env or {})}
        search = (whole.get("PYTHONPATH"), os.environ.get("PYTHONPATH"))
        return whole | ({"PYTHONPATH": os.pathsep.join(filter(None, search))} if any(search) else {})

    def call_program(self, *line: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
        done = subprocess.run(
            line,
            cwd=cwd or self.root,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def started(self, *arguments: str, env: dict[str, str] | None = None) -> Iterator["Started"]:
        whole = {**self.env, **(env or {})}
        if not can_run(whole, self.search):
            with self.started_program(sys.executable, "-m", "agentforge", *arguments, env=env) as started:
                yield started
            return
        process = warm_program(self.search).start(arguments, self.root, whole)
        yield from _ended(process)

    @contextmanager
    def started_program(self, *line: str, env: dict[str, str] | None = None) -> Iterator["Started"]:
        process = subprocess.Popen(
            line,
            cwd=self.root,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        yield from _ended(process)

    def end_agents(self) -> None:
        """End the supervisors that a test left running; each ends all that its agent started. They write to
        the project until they have ended."""
        left = []
        # An engine that is still running may remove folders: `os.walk` skips them, `rglob` raises.
        for folder in [folder for folder, _, files in os.walk(self.root) if "claim" in files]:
            try:
                claim = Path(folder, "claim").read_text()
            except FileNotFoundError:
                continue
            # A claim that an engine took names no supervisor.
            for pid in map(int, re.findall(r'"pid": ?(\d+)', claim)):
                with suppress(ProcessLookupError):  # It may end meanwhile.
                    if folder in command_line(pid):
                        os.kill(pid, signal.SIGTERM)
                        left.append((pid, folder))
        wait_for(lambda: not any(folder in command_line(pid) for pid, folder in left), "the supervisors' end")

    def end_background(self, server: TmuxServer) -> None:
        """End a tmux server, and wait for the engines that ran in it: they write to the project until they
        have ended."""
        server.end()
        self.end_agents()
        wait_for(lambda: not self._processes(), "the end of what ran in tmux")

    def _processes(self) -> list[int]:
        """Those whose command line names the project."""
        pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
        return [pid for pid in pids if str(self.root) in command_line(pid)]

    # -- what is on the disk

    def pipeline(self, *stages: str, name: str = "p.yaml", extra: str = "") -> str:
        """A pipeline file whose stages run a line of shell as their agent: `id=shell` or `id*N=shell`."""
        nodes = []
        for stage in stages:
            head, _, shell = stage.partition("=")
            id, _, runs = head.partition("*")
            nodes.append(
                f"  - id: {id}\n    prompt: do it\n    runs: {runs or 1}\n    delay: 0\n{extra}"
                f"    provider: {{type: command, run: {json.dumps('cat >/dev/null; ' + shell)}}}\n"
            )
        (self.root / name).write_text("name: demo\nnodes:\n" + "".join(nodes))
        return name

    def stage(self, name: str, text: str = "description: a stage\n") -> None:
        folder = self.root / ".claude" / "stages" / name
        folder.mkdir(parents=True)
        (folder / "stage.yaml").write_text(text)
        (folder / "prompt.md").write_text("do it\n")

    def run_dir(self, session: str) -> Path:
        return self.root / ".claude" / "pipeline-runs" / session

    def lock(self, session: str) -> Path:
        return self.root / ".claude" / "locks" / f"{session}.lock"

    def state(self, session: str) -> Any:
        return json.loads((self.run_dir(session) / "state.json").read_bytes())

    def events(self, session: str) -> list[Any]:
        """What is written so far; a line that is being written isn't."""
        try:
            content = (self.run_dir(session) / "events.jsonl").read_bytes()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in content.split(b"\n")[:-1]]

    def types(self, session: str) -> list[str]:
        return [event["type"] for event in self.events(session)]


def _ended(process: "subprocess.Popen[bytes] | WarmProcess") -> Iterator["Started"]:
    try:
        yield Started(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Started:
    def __init__(self, process: "subprocess.Popen[bytes] | WarmProcess") -> None:
        self.process = process

    def insist(self, number: signal.Signals) -> Done:
        """Signal it until it ends: on a busy machine the second may come too late to count as one."""
        for _ in range(20):
            self.signal(number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(4.5)
                break
        return self.end()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> Done:
        out, err = self.process.communicate(timeout=PATIENCE)
        return Done(self.process.returncode, out.decode(), err.decode())


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """What the condition returns once that is true."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"timed out waiting for: {what}")


def command_line(pid: int) -> str:
    """Empty if the process has ended, or if the system doesn't tell."""
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
