"""One table for both sandboxes: how each path is mounted, from their command lines."""

import os
from itertools import pairwise
from pathlib import Path

import pytest
from tests.adapters.sandbox_contract import SandboxContract
from tests.noting_sandbox import NotingSandbox

from agentforge.adapters.sandboxes.bwrap import BwrapSandbox
from agentforge.adapters.sandboxes.docker import DockerSandbox
from agentforge.adapters.sandboxes.mounts import program_files
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement, Sandbox

EXPECTED = {
    "": "writable",
    "runs": "hidden",
    "runs/s/stage": "readable",
    "runs/s/stage/001": "writable",
    "runs/s/stage/001/attempt-1": "readable",
    ".git": "writable",
    ".git/hooks": "readable",
    ".git/config": "readable",
    ".agentforge": "readable",
    "bin": "readable",
    "cache": "writable",
    "vault": "hidden",
    "config": "writable",
    "config/.env": "hidden",
}
"""By path in the workspace. Parents of protected and hidden paths are mounts, so that they can't be moved."""
FILES = (".git/config", "config/.env")
PROGRAMS = "bin"
"""On the PATH of the agent: protected by the sandbox itself."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in EXPECTED:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch() if name in FILES else path.mkdir(exist_ok=True)
    for tool in ("bwrap", "docker"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / tool).write_text("#!/bin/sh\n")
        (tmp_path / "tools" / tool).chmod(0o755)
    return root


def environment(tmp_path: Path) -> dict[str, str]:
    return {"PATH": f"{tmp_path}/tools:/usr/bin:/bin", "HOME": "/nonexistent"}


class TestBwrapContract(SandboxContract):
    @pytest.fixture
    def sandbox(self, project: Path, tmp_path: Path) -> Sandbox:
        if not Path("/proc/self").exists():
            pytest.skip("platform: bubblewrap works on Linux only")
        return BwrapSandbox(environment(tmp_path), str(project))


class TestDockerContract(SandboxContract):
    @pytest.fixture
    def sandbox(self, project: Path, tmp_path: Path) -> Sandbox:
        return DockerSandbox(environment(tmp_path), str(project))


class TestNotingContract(SandboxContract):
    @pytest.fixture
    def sandbox(self) -> Sandbox:
        return NotingSandbox()


class TestUnusableContract(SandboxContract):
    @pytest.fixture
    def sandbox(self) -> Sandbox:
        return NotingSandbox("it can't start", "root can't")


@pytest.mark.parametrize("kind", [BwrapSandbox, DockerSandbox])
def test_how_each_path_is_mounted(
    project: Path, tmp_path: Path, kind: type[BwrapSandbox] | type[DockerSandbox]
) -> None:
    environ = environment(tmp_path)
    sandbox: Sandbox = kind(environ, str(project))
    if kind is BwrapSandbox and not Path("/proc/self").exists():
        pytest.skip("platform: bubblewrap works on Linux only")
    within = Confinement(
        str(project),
        protected=tuple(
            f"{project}/{name}" for name, seen in EXPECTED.items() if seen == "readable" and name != PROGRAMS
        ),
        writable=(f"{project}/runs/s/stage/001",),
        hidden=(f"{project}/runs",),
    )
    command = Command(
        (f"{project}/{PROGRAMS}/agent",), {**environ, "PATH": f"{project}/{PROGRAMS}:/usr/bin:/bin"}
    )
    choice = SandboxChoice(kind.name, image="i", writable=("cache",), hidden=("vault", "config/.env"))
    argv = sandbox.wrap(command, choice, within, "mark").argv
    found = _bwrap(argv) if kind is BwrapSandbox else _docker(argv)
    inside = {path: seen for path, seen in found.items() if path == str(project) or f"{project}/" in path}
    assert {os.path.relpath(path, project): seen for path, seen in inside.items()} == {
        name or ".": seen for name, seen in EXPECTED.items()
    }
    assert list(inside) == sorted(inside, key=lambda path: path.count("/")), "parents first"


def _bwrap(argv: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for number, word in enumerate(argv):
        source, target = (*argv[number + 1 :], "", "")[:2]
        if word in ("--bind", "--ro-bind"):
            seen = "writable" if word == "--bind" else "hidden" if source == os.devnull else "readable"
            found[target] = seen
        elif word == "--tmpfs" and source in argv[argv.index("--remount-ro") :]:
            found[source] = "hidden"
    return found


def _docker(argv: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for option, value in pairwise(argv):
        if option == "--volume":
            source, target, *mode = value.split(":")
            found[target] = "hidden" if source == os.devnull else "readable" if mode else "writable"
        elif option == "--tmpfs" and value.endswith(":ro"):
            found[value.removesuffix(":ro")] = "hidden"
    return found


def test_the_programs_of_a_version_manager_are_beside_its_shims(tmp_path: Path) -> None:
    home, shims = tmp_path / "home", tmp_path / "home/.pyenv/shims"
    shims.mkdir(parents=True)
    found = program_files(
        "sh", {"PATH": f"{shims}:{home}/shims:/bin", "HOME": str(home)}, str(tmp_path / "p")
    )
    assert (str(shims.parent) in found, str(home / "shims") in found, str(home) in found) == (
        True,
        True,
        False,
    )
