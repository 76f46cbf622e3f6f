"""Docker: the agent runs in a container with the workspace mounted; the image contains the agent's
program."""

import hashlib
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase

from msgspec.structs import replace

from agentforge.adapters.sandboxes.mounts import (
    Mount,
    Visibility,
    given_mounts,
    in_order,
    is_within,
)
from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement
from agentforge.system.programs import Program, run
from agentforge.system.tools import find_tool, why_refused

TRIAL_SECONDS = 10.0
TMP = "/tmp"  # noqa: S108 - the container's own.
LABEL = "agentforge.attempt"
DESCRIPTOR = 3
"""From which the docker client reads the agent's environment."""
# Variables that describe this machine and would be wrong in the container, or are meant for the docker
# client.
KEPT_OUT = (
    *("PATH", "SHELL", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "LD_*", "PYTHON*", "VIRTUAL_ENV"),
    *("SSL_CERT_*", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "XDG_*", "DBUS_*", "SSH_*", "DOCKER_*"),
)


class DockerSandbox:
    name = "docker"

    def __init__(self, environ: Mapping[str, str] | None = None, project: str = "") -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._project = project

    @property
    def nesting_problem(self) -> str:
        return "Docker's default profile does not allow a sandbox inside a container"

    def probe(self, choice: SandboxChoice) -> None:
        client = self._client()
        _image(choice)
        argv = (client, "version", "--format", "{{.Server.Version}}")
        ended = run(Program(argv, TRIAL_SECONDS, env=self._environ))
        if ended.reason:
            raise ProviderUnusable(f"sandbox docker: {client} can't be run: {ended.problem}")
        if ended.code != 0:
            raise ProviderUnusable(
                f"sandbox docker: can't reach the Docker engine: {ended.last_error or 'no error message'}",
                hint="start it (sudo systemctl start docker), or set DOCKER_HOST; if it is running, your "
                "user may lack permission: sudo usermod -aG docker $USER, then log in again",
            )

    def wrap(self, command: Command, choice: SandboxChoice, within: Confinement, mark: str) -> Command:
        client = self._client()
        home = command.env.get("HOME") or "/"
        name = container_name(mark)
        mounts = in_order(
            (
                *(Mount(path, Visibility.WRITABLE) for path in command.state),
                *given_mounts(command, choice, within, home),
            )
        )
        user = f"{os.geteuid()}:{os.getegid()}"
        passed = {name: command.env[name] for name in sorted(command.env) if _passes(name)}
        # A file of variables can't contain such values, so these pass through the client's environment.
        several = [name for name, value in passed.items() if "\n" in value or "\r" in value]
        argv = (
            *(client, "run", "--rm", "--interactive", "--init", "--name", name, "--label", f"{LABEL}={mark}"),
            *("--user", user, "--workdir", within.workspace),
            *("--network", "bridge" if choice.network else "none"),
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--tmpfs", f"{TMP}:exec,mode=1777", *_home(home)),
            *(word for mount in mounts for word in _arguments(mount)),
            *("--env-file", f"/dev/fd/{DESCRIPTOR}"),
            *(word for variable in several for word in ("--env", variable)),
            _image(choice),
            *_inside(command.argv, mounts),
        )
        # The docker client needs these itself.
        own = {
            name: value
            for name, value in self._environ.items()
            if name in ("PATH", "HOME", "SSH_AUTH_SOCK") or name.startswith("DOCKER_")
        }
        lines = "".join(f"{name}={value}\n" for name, value in passed.items() if name not in several)
        return replace(
            command,
            argv=argv,
            env={**own, **{name: passed[name] for name in several}},
            descriptors={**command.descriptors, DESCRIPTOR: lines},
        )

    def cleanup(self, mark: str) -> tuple[str, ...]:
        return (self._client(), "rm", "-f", container_name(mark))

    def _client(self) -> str:
        found = find_tool("docker", self._environ, self._project)
        if found is None:
            raise ProviderUnusable(
                f"sandbox docker: the program `docker` is not installed"
                f"{why_refused('docker', self._environ, self._project)}",
                hint="install Docker (https://docs.docker.com/engine/install), or use `sandbox: bwrap`",
            )
        return found


def container_name(mark: str) -> str:
    """Deterministic per attempt, so that a later engine can remove the container."""
    return f"agentforge-{hashlib.sha256(mark.encode()).hexdigest()[:20]}"


def _image(choice: SandboxChoice) -> str:
    if not choice.image:
        raise ProviderUnusable(
            "sandbox docker: `image` is missing",
            hint="set one that contains the agent's program: `sandbox: {type: docker, image: my-agents:1}`",
        )
    return choice.image


def _passes(variable: str) -> bool:
    return not any(fnmatchcase(variable, pattern) for pattern in KEPT_OUT)


def _home(home: str) -> tuple[str, ...]:
    """A tmpfs: the container's user has no passwd entry, and the agent's state is mounted below it."""
    if home == "/":
        return ()
    return ("--tmpfs", f"{home}:exec,mode=0700,uid={os.geteuid()},gid={os.getegid()}")


def _arguments(mount: Mount) -> tuple[str, ...]:
    if ":" in mount.path:
        raise ProviderUnusable(
            f"sandbox docker can't mount a path with a colon: {mount.path}", hint="rename the folder"
        )
    match mount.seen:
        case Visibility.WRITABLE:
            return ("--volume", f"{mount.path}:{mount.path}")
        case Visibility.READABLE:
            return ("--volume", f"{mount.path}:{mount.path}:ro")
        case Visibility.HIDDEN if not os.path.isdir(mount.path):
            return ("--volume", f"{os.devnull}:{mount.path}:ro")
        case Visibility.EMPTY | Visibility.HIDDEN:
            return ("--tmpfs", f"{mount.path}:ro")


def _inside(argv: tuple[str, ...], mounts: list[Mount]) -> tuple[str, ...]:
    """A program that isn't mounted comes from the image and is found by its name."""
    program, *arguments = argv
    if os.path.isabs(program) and not any(is_within(program, mount.path) for mount in mounts):
        program = os.path.basename(program)
    return (program, *arguments)
