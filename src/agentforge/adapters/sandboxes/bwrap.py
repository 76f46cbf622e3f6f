"""Bubblewrap: the agent sees the machine read-only, an empty home, and can write only to its workspace.

SIGTERM must reach the agent but not bwrap, which would kill the agent before it can shut down in order: bwrap
is started with SIGTERM ignored, and the agent with the default action.
"""

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from msgspec.structs import replace

from agentforge.adapters.sandboxes.mounts import (
    Mount,
    Visibility,
    given_mounts,
    in_order,
    is_within,
    program_files,
)
from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement
from agentforge.system.programs import Program, run
from agentforge.system.tools import find_tool, why_refused

TRIAL_SECONDS = 10.0
DESCRIPTOR = 3
"""From which bwrap reads the agent's environment."""
TMP = "/tmp"  # noqa: S108 - the sandbox's own, in memory.
# Emptied, since they contain sockets, credentials and other users' files.
EMPTIED = (TMP, "/var/tmp", "/run", "/var/run", "/home", "/root")  # noqa: S108
# Files that programs need for network access and for git commits.
EXPECTED = ("/etc/resolv.conf", "~/.gitconfig", "~/.config/git/config", "~/.config/git/ignore")
SOCKETS = "/proc/net/unix"
KERNEL_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/acpi", "/proc/scsi")
_SWITCHES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)


class BwrapSandbox:
    name = "bwrap"

    def __init__(self, environ: Mapping[str, str] | None = None, project: str = "") -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._project = project

    @property
    def nesting_problem(self) -> str:
        # The kernel requires CAP_SETFCAP of root, which would let it mark files on this machine.
        return "" if os.geteuid() else "root can't create another sandbox inside bwrap"

    def probe(self, choice: SandboxChoice) -> None:
        program = self._program()
        argv = (program, "--ro-bind", "/", "/", *_isolation(choice), "--", "true")
        ended = run(Program(argv, TRIAL_SECONDS))
        if ended.reason:
            raise ProviderUnusable(f"sandbox bwrap: {program} can't be run: {ended.problem}")
        if ended.code != 0:
            reason = ended.last_error or "no error message"
            raise ProviderUnusable(f"sandbox bwrap doesn't work here: {reason}", hint=_remedy())

    def wrap(
        self,
        command: Command,
        choice: SandboxChoice,
        within: Confinement,
        mark: str,  # noqa: ARG002 - the agent has it in its environment.
    ) -> Command:
        program = self._program()
        home = command.env.get("HOME") or os.path.expanduser("~")
        mounts = _mounts(command, choice, within, home)
        hidden = [mount.path for mount in mounts if mount.seen is Visibility.HIDDEN]
        sealed = [path for path in hidden if os.path.isdir(path)]
        confined = (
            *(program, "--args", str(DESCRIPTOR), "--ro-bind", "/", "/", *_isolation(choice)),
            *(word for mount in mounts for word in _arguments(mount)),
            *(word for path in sealed for word in ("--remount-ro", path)),
            *("--chdir", within.workspace),
        )
        argv = (*confined, "--", *command.argv)
        if env := _with_signals(find_tool("env", self._environ, self._project) or ""):
            argv = (
                *(env, "--ignore-signal=TERM", *confined, "--die-with-parent"),
                *("--", env, "--default-signal=TERM", *command.argv),
            )
        # bwrap's own process is visible in the sandbox, so its environment is empty.
        variables = {**command.env, "TMPDIR": TMP}.items()
        words = (word for name, value in variables for word in ("--setenv", name, value))
        arguments = "".join(f"{word}\0" for word in words)
        return replace(command, argv=argv, env={}, descriptors={**command.descriptors, DESCRIPTOR: arguments})

    def cleanup(self, mark: str) -> tuple[str, ...]:  # noqa: ARG002 - its processes are ours.
        return ()

    def _program(self) -> str:
        if sys.platform != "linux":
            raise ProviderUnusable(
                "sandbox bwrap: bubblewrap works on Linux only", hint="use `sandbox: docker` on this system"
            )
        found = find_tool("bwrap", self._environ, self._project)
        if found is None:
            raise ProviderUnusable(
                f"sandbox bwrap: the program `bwrap` is not installed"
                f"{why_refused('bwrap', self._environ, self._project)}",
                hint="install it: sudo apt-get install bubblewrap (or dnf, pacman, apk with the same name)",
            )
        return found


def _isolation(choice: SandboxChoice) -> tuple[str, ...]:
    return (
        *("--dev", "/dev", "--proc", "/proc"),
        # Root can write to these even without any capabilities.
        *(word for path in KERNEL_SWITCHES for word in ("--ro-bind-try", path, path)),
        *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        # Root would keep them, and could unmount what we mounted.
        *("--cap-drop", "ALL"),
        *(() if choice.network else ("--unshare-net",)),
    )


def _mounts(command: Command, choice: SandboxChoice, within: Confinement, home: str) -> list[Mount]:
    emptied = {os.path.realpath(path) for path in (*EMPTIED, home) if os.path.isdir(path)} - {"/"}
    needed = (
        *program_files(command.argv[0], command.env, within.workspace),
        *(os.path.realpath(path.replace("~", home, 1)) for path in EXPECTED),
    )
    given = given_mounts(command, choice, within, home)
    for path in command.state:
        # Only what exists is mounted, and the program could not create its folder in an empty home for good.
        is_folder = not os.path.splitext(path)[1]
        if is_folder and is_within(path, home) and not os.path.lexists(path):
            os.makedirs(path, mode=0o700, exist_ok=True)
    mounts = (
        *(Mount(path, Visibility.EMPTY) for path in emptied),
        *(Mount(path, Visibility.READABLE) for path in needed if _is_below(_resolve(path, emptied), emptied)),
        *(Mount(path, Visibility.WRITABLE) for path in command.state),
        *given,
        *(Mount(path, Visibility.HIDDEN) for path in ([] if choice.network else sockets(emptied))),
    )
    return in_order(Mount(_resolve(mount.path, emptied), mount.seen) for mount in mounts)


def sockets(emptied: Collection[str], listing: str = SOCKETS) -> list[str]:
    """The sockets of this machine's servers that a network of its own doesn't hide: those in files, outside
    the emptied folders."""
    try:
        with open(listing, encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split(maxsplit=7) for line in file]
    except OSError:
        return []
    paths = {row[7].rstrip("\n") for row in rows if len(row) == 8 and row[7].startswith("/")}
    existing = filter(os.path.lexists, paths)
    return sorted(path for path in existing if not _is_below(_resolve(path, emptied), emptied))


def _resolve(path: str, emptied: Collection[str]) -> str:
    """The path with links resolved in its parents, since links are dangling while the sandbox is being built.
    The last component is not resolved below an emptied folder, where only the mount itself will exist."""
    place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return place if _is_below(place, emptied) else os.path.realpath(path)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(is_within(path, folder) and path != folder for folder in folders)


def _arguments(mount: Mount) -> tuple[str, ...]:
    source = os.path.realpath(mount.path)
    match mount.seen:
        case Visibility.WRITABLE:
            return ("--bind", source, mount.path)
        case Visibility.READABLE:
            return ("--ro-bind", source, mount.path)
        case Visibility.HIDDEN if not os.path.isdir(mount.path):
            return ("--ro-bind", os.devnull, mount.path)
        case Visibility.EMPTY | Visibility.HIDDEN:
            return ("--tmpfs", mount.path)


@cache
def _with_signals(program: str) -> str:
    """The `env` program if it can set signal actions, or "". In that case bwrap dies first when both get
    SIGTERM, and the supervisor ends the agent."""
    argv = (program, "--ignore-signal=TERM", program, "--default-signal=TERM", "true")
    return program if run(Program(argv, 5.0)).code == 0 else ""


def _remedy() -> str:
    for path, value, command in _SWITCHES:
        try:
            with open(path, encoding="ascii") as file:
                if file.read().strip() == value:
                    return f"user namespaces are disabled; enable them: {command}"
        except OSError:
            continue
    return (
        "user namespaces seem to be blocked, as in many containers: run on the host, start the container "
        "with --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or use `sandbox: none`"
    )
