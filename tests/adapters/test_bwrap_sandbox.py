"""Agents under bubblewrap: what they can see, write and reach, as root and as another user."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.runtime.attempt_run import AttemptRun, eventually, lives, no_leftover_processes

from agentforge.adapters.sandboxes.bwrap import BwrapSandbox
from agentforge.app.wiring import sandboxes
from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement

BWRAP = SandboxChoice(type="bwrap")
NOBODY = 65534
PATH = "/usr/local/bin:/usr/bin:/bin"  # Which everybody may enter.


def why_not() -> str:
    try:
        BwrapSandbox().probe(BWRAP)
    except ProviderUnusable as error:
        return f"{error.message}; {error.hint}"
    return ""


class World:
    """A home, a project and a place outside both, for one user."""

    def __init__(self, root: Path, uid: int) -> None:
        self.root, self.uid = root, uid
        self.home, self.project, self.outside = root / "home", root / "project", root / "outside"
        for folder in (self.home, self.project, self.outside):
            folder.mkdir()
        (self.home / "private").write_text("private\n")
        (self.outside / "file").write_text("outside\n")
        self.sandbox = BwrapSandbox()

    def command(self, script: str, **asked: Any) -> Command:
        env = {"PATH": PATH, "HOME": str(self.home)}
        return Command(("/bin/sh", "-c", script), env, **asked)

    def wrapped(
        self,
        script: str,
        choice: SandboxChoice = BWRAP,
        confined: dict[str, tuple[str, ...]] | None = None,
        **asked: Any,
    ) -> Command:
        for path in (self.root, *self.root.rglob("*")):
            os.chown(path, self.uid, self.uid)
        within = Confinement(str(self.project), **(confined or {}))
        if self.uid == os.geteuid():
            return self.sandbox.wrap(self.command(script, **asked), choice, within, "mark")
        os.seteuid(self.uid)  # What there is to mount is looked up by the one who mounts it.
        try:
            command = self.sandbox.wrap(self.command(script, **asked), choice, within, "mark")
        finally:
            os.seteuid(0)
        become = ("setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups")
        return replace(command, argv=(*become, *command.argv))

    def run(self, script: str, *arguments: Any, **asked: Any) -> str:
        """The output of the script; each line runs whether or not the one before failed."""
        command = self.wrapped(script, *arguments, **asked)
        with tempfile.NamedTemporaryFile() as given:
            given.write(command.descriptors[3].encode())
            given.flush()
            done = subprocess.run(
                ["/bin/sh", "-c", 'exec "$@" 3<"$0"', given.name, *command.argv],
                env={"PATH": PATH, **command.env},
                cwd=self.project,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=60,
                check=False,
                text=True,
            )
        assert "bwrap:" not in done.stderr, done.stderr
        return done.stdout


USERS = [pytest.param(os.geteuid(), id="self")]
if os.geteuid() == 0 and shutil.which("setpriv"):
    USERS.append(pytest.param(NOBODY, id="nobody"))


@pytest.fixture(params=USERS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if reason := why_not():
        pytest.skip(f"sandbox: {reason}")
    # Not in pytest's folder, which other users can't enter; but below /tmp, which is hidden, too.
    root = Path(tempfile.mkdtemp(prefix="bwrap-test-"))
    root.chmod(0o755)
    yield World(root, request.param)
    shutil.rmtree(root)


def can(action: str) -> str:
    return f"if ({action}) >/dev/null 2>&1; then echo yes; else echo no; fi\n"


def test_the_workspace_can_be_written(world: World) -> None:
    world.run("echo hello > new; mkdir folder; pwd > folder/where")
    assert (world.project / "new").read_text() == "hello\n"
    assert (world.project / "folder/where").read_text() == f"{world.project}\n"


@pytest.mark.parametrize(
    "target", ["/etc/new", "/usr/new", "/new", "/var/new", "/sys/new", "/proc/sys/kernel/core_pattern"]
)
def test_the_machine_can_only_be_read(world: World, target: str) -> None:
    assert world.run(can(f"echo x > {target}") + can("cat /etc/passwd")) == "no\nyes\n"
    assert target.startswith("/proc") or not Path(target).exists()


def test_the_home_is_hidden(world: World) -> None:
    assert world.run(can("cat ~/private") + "ls ~ | wc -l") == "no\n0\n"


def test_files_written_to_the_home_are_discarded(world: World) -> None:
    assert world.run(can("echo x > ~/new && cat ~/new")) == "yes\n"
    assert [path.name for path in world.home.iterdir()] == ["private"]


def test_temporary_files_are_private_to_the_agent(world: World) -> None:
    mine = Path(tempfile.gettempdir()) / f"{world.root.name}-mine"
    mine.write_text("mine")
    try:
        text = world.run(can(f"cat {mine}") + 'echo x > "$TMPDIR/theirs"; cat "$TMPDIR/theirs"; echo $TMPDIR')
    finally:
        mine.unlink()
    assert text == "no\nx\n/tmp\n"
    assert not Path("/tmp/theirs").exists()


def test_sockets_and_other_processes_are_hidden(world: World) -> None:
    text = world.run(
        "ls /run | grep -v -e systemd -e NetworkManager -e resolvconf; ls /proc | grep -c '^[0-9]'; "
        + can("kill -0 " + str(os.getpid()))
    )
    processes, found = text.split()[-2:]
    assert int(processes) < 10
    assert (found, text.count("\n")) == ("no", 2)


def test_devices_are_the_harmless_ones(world: World) -> None:
    text = world.run("ls /dev")
    assert {"null", "zero", "urandom"} <= set(text.split())
    assert not {"sda", "vda", "kmsg", "mem"} & set(text.split())


def test_further_paths_can_be_made_writable(world: World) -> None:
    (world.home / "cache").mkdir()
    choice = SandboxChoice(type="bwrap", writable=(str(world.outside), "~/cache", "not/there"))
    world.run(f"echo x >> {world.outside}/file; echo y > ~/cache/new", choice)
    assert (world.outside / "file").read_text() == "outside\nx\n"
    assert (world.home / "cache/new").read_text() == "y\n"


def test_further_paths_can_be_hidden(world: World) -> None:
    (world.project / ".env").write_text("KEY=1\n")
    (world.project / "vault").mkdir()
    (world.project / "vault/key").write_text("1\n")
    choice = SandboxChoice(type="bwrap", hidden=(".env", "vault", "/etc/passwd"))
    script = "cat .env; ls vault; cat /etc/passwd; " + can("echo x > .env") + can("echo x > vault/new")
    assert world.run(script, choice) == "no\nno\n"
    assert (world.project / ".env").read_text() == "KEY=1\n"


def test_the_programs_own_state_can_be_written_and_is_made_if_missing(world: World) -> None:
    (world.home / ".agent.json").write_text("{}")
    state = tuple(str(world.home / name) for name in (".agent", ".agent.json", "missing.json"))
    world.run("echo x > ~/.agent/session; echo '[]' > ~/.agent.json; echo y > ~/missing.json", state=state)
    assert (world.home / ".agent/session").read_text() == "x\n"
    assert (world.home / ".agent.json").read_text() == "[]\n"
    assert not (world.home / "missing.json").exists()


def test_a_linked_state_is_written_where_it_leads(world: World) -> None:
    (world.home / "dotfiles").mkdir()
    (world.home / ".agent").symlink_to(world.home / "dotfiles")
    world.run("echo x > ~/.agent/session", state=(str(world.home / ".agent"),))
    assert (world.home / "dotfiles/session").read_text() == "x\n"


def test_programs_of_the_home_can_be_run_and_not_changed(world: World) -> None:
    tools, real = world.home / "bin", world.home / "share/agent/1.0"
    tools.mkdir()
    real.mkdir(parents=True)
    (real / "agent").write_text("#!/bin/sh\ncat $(dirname $(readlink -f $0))/data\n")
    (real / "agent").chmod(0o755)
    (real / "data").write_text("data\n")
    (tools / "agent").symlink_to(real / "agent")
    (tools / "other").write_text("#!/bin/sh\necho other\n")
    (tools / "other").chmod(0o755)
    env = {"PATH": f"{tools}:{PATH}", "HOME": str(world.home)}
    world.command = lambda script, **asked: Command((str(tools / "agent"),), env)  # type: ignore[method-assign]
    assert world.run("") == "data\n"
    world.command = lambda script, **asked: Command(("/bin/sh", "-c", script), env)  # type: ignore[method-assign]
    assert world.run("other; " + can(f"echo x >> {tools}/other") + can("cat ~/private")) == "other\nno\nno\n"


def test_our_own_programs_run_in_it(world: World) -> None:
    if world.uid != os.geteuid() and any(
        not folder.stat().st_mode & 1 for folder in Path(sys.base_prefix).parents
    ):
        pytest.skip("privileges: this user can't run this Python at all")
    assert world.run(f"{sys.executable} -c 'import agentforge, msgspec; print(1)'") == "1\n"


def test_the_name_for_commits_is_seen_and_the_credentials_are_not(world: World) -> None:
    (world.home / ".gitconfig").write_text("[user]\n\tname = Me\n")
    (world.home / ".git-credentials").write_text("https://me:secret@127.0.0.1\n")
    assert world.run("grep -c name ~/.gitconfig; " + can("cat ~/.git-credentials")) == "1\nno\n"


@pytest.mark.parametrize("network", [True, False])
def test_the_network_can_be_disabled(world: World, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 3)"
        script = can(f'/usr/bin/env python3 -c "{code}"')
        assert world.run(script, SandboxChoice(type="bwrap", network=network)) == (
            "yes\n" if network else "no\n"
        )


def test_an_agent_cannot_escape_the_sandbox(world: World) -> None:
    script = (
        can("umount ~") + can("mount -o remount,rw /") + can(f"mount --bind {world.outside} {world.home}")
    )
    assert world.run(script) == "no\nno\nno\n"
    world.run(
        f"unshare -rm sh -c 'mount -o remount,rw,bind / ; umount {world.home}; echo x > {world.home}/private'"
    )
    assert (world.home / "private").read_text() == "private\n"


# -- a run's own files


@pytest.fixture
def run_files(world: World) -> dict[str, Path]:
    runs = world.project / ".claude/pipeline-runs"
    here = runs / "auth/stage-00-work/iterations/002"
    attempt = here / "attempt-1"
    attempt.mkdir(parents=True)
    earlier = runs / "auth/stage-00-work/iterations/001"
    earlier.mkdir()
    files = {
        "log": runs / "auth/events.jsonl",
        "plan": runs / "auth/plan.json",
        "claim": attempt / "claim",
        "exit": attempt / "exit.json",
        "output": attempt / "output.log",
        "earlier": earlier / "result.json",
        "progress": runs / "auth/progress-auth.md",
        "prompt": here / "prompt.md",
    }
    for path in files.values():
        path.write_text("as it was\n")
    return files


def confined(files: dict[str, Path]) -> dict[str, tuple[str, ...]]:
    here = files["prompt"].parent
    runs = here.parents[3]
    return {
        "protected": (str(runs), str(files["claim"].parent)),
        "writable": (str(here), str(files["progress"])),
    }


@pytest.mark.parametrize("name", ["log", "plan", "claim", "exit", "output", "earlier"])
def test_an_agent_cannot_change_the_record_of_its_run(
    world: World, run_files: dict[str, Path], name: str
) -> None:
    path = run_files[name]
    attempts = (
        f"echo x >> {path}",
        f"rm -f {path}; [ ! -e {path} ]",
        f"mv {path} {world.project}/gone",
        f"mv {path.parent} {path.parent}-gone",
        f"touch {path.parent}/new",
    )
    assert world.run("".join(map(can, attempts)), BWRAP, confined(run_files)) == "no\n" * len(attempts)
    assert path.read_text() == "as it was\n"


def test_an_agent_cannot_put_another_record_in_its_place(world: World, run_files: dict[str, Path]) -> None:
    script = can("mv .claude .other") + can("mv .claude/pipeline-runs .claude/other") + can("rm -rf .claude")
    assert world.run(script, BWRAP, confined(run_files)) == "no\nno\nno\n"
    assert run_files["log"].read_text() == "as it was\n"


def test_an_agent_can_write_its_result_and_the_progress(world: World, run_files: dict[str, Path]) -> None:
    here = run_files["prompt"].parent
    script = f"""printf '{{"summary": "done"}}' > {here}/result.json; echo more >> {run_files["progress"]}"""
    world.run(script + f"; cat {run_files['earlier']}", BWRAP, confined(run_files))
    assert json.loads((here / "result.json").read_text()) == {"summary": "done"}
    assert run_files["progress"].read_text() == "as it was\nmore\n"


# -- ending


@pytest.fixture
def attempt(world: World, tmp_path: Path) -> Iterator[AttemptRun]:
    with no_leftover_processes():
        run = AttemptRun(tmp_path)
        yield run
        run.close()


def start(attempt: AttemptRun, world: World, script: str, **changes: Any) -> subprocess.Popen[bytes]:
    command = world.wrapped(script)
    given = {str(number): text for number, text in command.descriptors.items()}
    return attempt.start(*command.argv, env=command.env, descriptors=given, cwd=str(world.project), **changes)


def test_the_sandbox_itself_has_no_environment(attempt: AttemptRun, world: World) -> None:
    """Its process is the first in the sandbox, where the agent could look at it."""
    start(attempt, world, "echo $HOME; tr '\\0' '\\n' < /proc/1/environ; tr '\\0' ' ' < /proc/1/cmdline")
    attempt.outcome()
    home, *seen = attempt.output.read_text().splitlines()
    assert home == str(world.home)
    assert [line for line in seen if "=" in line and not line.startswith("AGENTFORGE_ATTEMPT=")] == [
        line for line in seen if line.startswith(("env ", "/")) and "=" in line
    ]
    assert f"HOME={world.home}" not in seen


def test_a_confined_agent_runs_under_the_supervisor(attempt: AttemptRun, world: World) -> None:
    start(attempt, world, "echo said; cat; exit 7")
    record = attempt.outcome()
    assert (record["status"], record["exit_code"], record["error"]) == ("exited", 7, None)
    assert attempt.output.read_text() == "said\n"


def test_a_confined_agent_is_asked_to_end_and_has_its_grace(attempt: AttemptRun, world: World) -> None:
    script = "trap 'sleep 0.3; echo bye >> ended; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    supervisor = start(attempt, world, script)
    eventually(lambda: attempt.output.exists() and attempt.output.read_text() == "up\n")
    supervisor.terminate()
    assert attempt.outcome()["status"] == "ended"
    assert (world.project / "ended").read_text() == "bye\n"


def test_a_system_whose_env_knows_no_signals_ends_agents_in_order_too(
    attempt: AttemptRun, world: World
) -> None:
    tools = world.root / "tools"
    tools.mkdir()
    (tools / "env").write_text("#!/bin/sh\nexit 1\n")
    (tools / "env").chmod(0o755)
    world.sandbox = BwrapSandbox({"PATH": f"{tools}:{os.environ['PATH']}"})
    script = "trap 'sleep 0.3; echo bye >> ended; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    supervisor = start(attempt, world, script)
    assert "--die-with-parent" not in world.wrapped(script).argv
    eventually(lambda: attempt.output.exists() and attempt.output.read_text() == "up\n")
    supervisor.terminate()
    assert attempt.outcome()["status"] == "ended"
    assert (world.project / "ended").read_text() == "bye\n"


def test_a_confined_agent_that_is_deaf_is_ended_with_all_it_started(
    attempt: AttemptRun, world: World
) -> None:
    script = (
        "trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' & echo up; wait; sleep 60"
    )
    supervisor = start(attempt, world, script, term_grace=0.3)
    eventually(lambda: attempt.output.exists() and attempt.output.read_text() == "up\n")
    supervisor.terminate()
    assert attempt.outcome()["status"] == "ended"


def test_leftover_processes_of_a_confined_agent_are_ended(attempt: AttemptRun, world: World) -> None:
    start(attempt, world, "(setsid sleep 60 &) ; echo done")
    assert attempt.outcome()["status"] == "exited"


def test_a_confined_agent_dies_with_its_supervisor(attempt: AttemptRun, world: World) -> None:
    supervisor = start(attempt, world, "echo up; setsid sleep 60 & wait")
    eventually(lambda: attempt.output.exists() and attempt.output.read_text() == "up\n")
    agent = attempt.agent_pid()
    supervisor.kill()
    supervisor.wait()
    eventually(lambda: not lives(agent))


def test_the_mark_is_seen_from_outside(attempt: AttemptRun, world: World) -> None:
    supervisor = start(attempt, world, "echo up; exec sleep 61")
    eventually(lambda: attempt.output.exists() and attempt.output.read_text() == "up\n")
    marked = [
        entry
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and attempt.mark.encode() in _environ(entry)
    ]
    supervisor.terminate()
    attempt.outcome()
    assert len(marked) >= 2  # Around the sandbox, and in it.


def _environ(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


# -- what is missing


def test_missing_bwrap_has_install_instructions(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnusable, match="not installed") as refusal:
        BwrapSandbox({"PATH": str(tmp_path)}).probe(BWRAP)
    assert "apt-get install bubblewrap" in refusal.value.hint


def test_blocked_namespaces_have_a_hint(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(ProviderUnusable, match="No permissions to create new namespace") as refusal:
        BwrapSandbox({"PATH": str(tmp_path)}).probe(BWRAP)
    assert "user namespaces" in refusal.value.hint


def test_the_sandboxes_are_known_by_their_names() -> None:
    assert {name: sandbox.name for name, sandbox in sandboxes({}, "").items()} == {
        "bwrap": "bwrap",
        "docker": "docker",
    }
