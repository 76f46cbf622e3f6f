"""Bubblewrap: the agent sees the machine read-only, its home not at all, and writes to its workspace only.

A TERM must reach the agent and not the program around it, which would take the agent down before it could
end in order; so that one is started deaf to it, and the agent is not.
"""

import os
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from agentforge.adapters.sandboxes.mounts import Mount, Visibility, given_mounts, in_order, is_within
from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement
from agentforge.system.programs import Program, run

# By one of these, a folder that has programs in its `bin` is an installation as a whole.
_INSTALLATION = ("pyvenv.cfg", "conda-meta", "bin/node", "bin/python3", "bin/java")
_MAX_HOPS = 8
_SITE = ("site-packages", "dist-packages")
TRIAL_SECONDS = 10.0
TMP = "/tmp"  # noqa: S108 - the sandbox's own, in memory.
# Emptied, since sockets, other people's files and credentials lie there.
EMPTIED = (TMP, "/var/tmp", "/run", "/var/run", "/home", "/root")  # noqa: S108
# Which a program with a network, or one that commits, expects to find.
EXPECTED = ("/etc/resolv.conf", "~/.gitconfig", "~/.config/git/config", "~/.config/git/ignore")
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


def program_files(program: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The folders without which the program, those on its PATH and our own don't run."""
    path = environment.get("PATH", os.defpath)
    home = environment.get("HOME", "")
    found: list[str] = []
    for place in (program, sys.executable):
        _trace(place, path, found)
    folders = [
        *(_installation(os.path.dirname(place), home) for place in found),
        *(_installation(folder, home) for folder in path.split(os.pathsep) if os.path.isabs(folder)),
        *_our_own(),
    ]
    return tuple(dict.fromkeys(os.path.normpath(folder) for folder in folders))


def _trace(program: str, path: str, found: list[str]) -> None:
    """The program, all that its links lead through, and the same of the interpreter it names."""
    place = shutil.which(program, path=path)
    hops = 0
    while place is not None and place not in found and hops < _MAX_HOPS:
        found.append(place)
        hops += 1
        if os.path.islink(place):
            place = os.path.join(os.path.dirname(place), os.readlink(place))
        else:
            found.append(os.path.realpath(place))
            place = shutil.which(interpreter, path=path) if (interpreter := _interpreter(place)) else None


def _interpreter(program: str) -> str:
    try:
        with Path(program).open("rb") as file:
            first = file.readline(512)
    except OSError:
        return ""
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


def _installation(folder: str, home: str) -> str:
    """The folder, or the whole installation that it is a part of."""
    before, modules, _ = folder.partition("/node_modules/")
    if modules:
        return f"{before}/node_modules"
    prefix = os.path.dirname(folder)
    if os.path.basename(folder) != "bin" or prefix in ("/", home, os.path.join(home, ".local")):
        return folder
    whole = any(os.path.exists(os.path.join(prefix, name)) for name in _INSTALLATION)
    return prefix if whole else folder


def _our_own() -> Iterable[str]:
    package = str(Path(__file__).absolute().parents[2])
    sites = (entry for entry in sys.path if os.path.basename(entry) in _SITE)
    return (sys.prefix, sys.base_prefix, package, *sites)


class BwrapSandbox:
    name = "bwrap"

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)

    def probe(self, choice: SandboxChoice) -> None:
        program = self._program()
        argv = (program, "--ro-bind", "/", "/", *_isolation(choice), "--", "true")
        ended = run(Program(argv, TRIAL_SECONDS))
        if ended.reason:
            raise ProviderUnusable(f"sandbox bwrap: {program} can't be run: {ended.problem}")
        if ended.code != 0:
            said = ended.last_error or "it says nothing"
            raise ProviderUnusable(f"sandbox bwrap can't be set up here: {said}", hint=_remedy())

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
            *(program, "--ro-bind", "/", "/", *_isolation(choice)),
            *(word for mount in mounts for word in _arguments(mount)),
            *(word for path in sealed for word in ("--remount-ro", path)),
            *("--chdir", within.workspace),
        )
        argv = (*confined, "--", *command.argv)
        if polite := _env_with_signals(self._environ.get("PATH", os.defpath)):
            argv = (
                *(polite, "--ignore-signal=TERM", *confined, "--die-with-parent"),
                *("--", polite, "--default-signal=TERM", *command.argv),
            )
        return replace(command, argv=argv, env={**command.env, "TMPDIR": TMP})

    def _program(self) -> str:
        if sys.platform != "linux":
            raise ProviderUnusable(
                "sandbox bwrap: bubblewrap works on Linux only", hint="use `sandbox: docker` on this system"
            )
        found = shutil.which("bwrap", path=self._environ.get("PATH", os.defpath))
        if found is None:
            raise ProviderUnusable(
                "sandbox bwrap: the program `bwrap` is not installed",
                hint="install it: sudo apt-get install bubblewrap (or dnf, pacman, apk with the same name)",
            )
        return found


def _isolation(choice: SandboxChoice) -> tuple[str, ...]:
    return (
        *("--dev", "/dev", "--proc", "/proc"),
        # The kernel takes root's word there, even that of a root without any other power.
        *(word for path in KERNEL_SWITCHES for word in ("--ro-bind-try", path, path)),
        *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        # Root would keep them, and could take the mounts away again.
        *("--cap-drop", "ALL"),
        *(() if choice.network else ("--unshare-net",)),
    )


def _mounts(command: Command, choice: SandboxChoice, within: Confinement, home: str) -> list[Mount]:
    emptied = {os.path.realpath(path) for path in (*EMPTIED, home) if os.path.isdir(path)} - {"/"}
    needed = (
        *program_files(command.argv[0], command.env),
        *(os.path.realpath(path.replace("~", home, 1)) for path in EXPECTED),
    )
    wanted = (
        *(Mount(path, Visibility.EMPTY) for path in emptied),
        *(Mount(path, Visibility.READABLE) for path in needed if _is_below(_place(path, emptied), emptied)),
        *(Mount(path, Visibility.WRITABLE) for path in _state(command, home)),
        *given_mounts(within, choice, home),
    )
    return in_order(Mount(_place(mount.path, emptied), mount.seen) for mount in wanted)


def _place(path: str, emptied: Collection[str]) -> str:
    """Where a path is without links on the way, which lead nowhere while the sandbox is being built. The
    last one stands for what it leads to where nothing but the mount will be there."""
    place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return place if _is_below(place, emptied) else os.path.realpath(path)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(is_within(path, folder) and path != folder for folder in folders)


def _state(command: Command, home: str) -> list[str]:
    """Where the program keeps its own; a folder that it would make in its home is made for it."""
    for path in command.state:
        is_folder = not os.path.splitext(path)[1]
        if is_folder and is_within(path, home) and not os.path.lexists(path):
            os.makedirs(path, mode=0o700, exist_ok=True)
    return list(command.state)


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
def _env_with_signals(path: str) -> str:
    """An `env` that can set how signals are taken, or "" if this system's can't. The agent then outlives
    the program around it when both are asked to end, and the supervisor sees to its end."""
    program = shutil.which("env", path=path) or ""
    argv = (program, "--ignore-signal=TERM", program, "--default-signal=TERM", "true")
    return program if run(Program(argv, 5.0)).code == 0 else ""


def _remedy() -> str:
    for path, value, command in _SWITCHES:
        try:
            with open(path, encoding="ascii") as file:
                if file.read().strip() == value:
                    return f"user namespaces are switched off; allow them: {command}"
        except OSError:
            continue
    return (
        "user namespaces seem to be refused, as in many containers: run on the host, start the container "
        "with --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or use `sandbox: none`"
    )
