"""What bubblewrap is asked for, without bubblewrap: the program is a stand-in that is never run."""

import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.scratch import MEMORY

from agentforge.adapters.sandboxes.bwrap import KERNEL_SWITCHES, BwrapSandbox
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement

pytestmark = pytest.mark.skipif(
    not Path("/proc/sys").exists(), reason="platform: bubblewrap is for Linux only"
)


class World:
    def __init__(self, root: Path) -> None:
        self.home, self.project = root / "home", root / "project"
        self.runs = self.project / ".claude" / "pipeline-runs"
        self.here = self.runs / "s" / "stage-00-plan" / "iterations" / "001"
        self.attempt = self.here / "attempt-1"
        for folder in (self.home, self.attempt, root / "tools"):
            folder.mkdir(parents=True)
        (root / "tools" / "bwrap").write_text("#!/bin/sh\nexit 1\n")
        (root / "tools" / "bwrap").chmod(0o755)
        self.path = f"{root / 'tools'}:/usr/bin:/bin"

    def argv(self, **asked: object) -> list[str]:
        """Of the sandbox; the agent's own words come after `--`."""
        choice = SandboxChoice(type="bwrap", **asked)  # type: ignore[arg-type]
        command = Command(("/bin/sh", "-c", "true"), {"HOME": str(self.home), "PATH": "/usr/bin:/bin"})
        within = Confinement(
            str(self.project), (str(self.runs), str(self.attempt)), (str(self.here), str(self.runs / "p.md"))
        )
        wrapped = BwrapSandbox({"PATH": self.path}).wrap(command, choice, within, "mark")
        assert wrapped.env == {}, "its process is visible in the sandbox"
        words = list(wrapped.argv)
        assert words[-3:] == ["/bin/sh", "-c", "true"]
        return words[: words.index("--")]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


def has(argv: list[str], *words: str) -> bool:
    return position(argv, *words) >= 0


def position(argv: list[str], *words: str) -> int:
    found = [n for n in range(len(argv)) if argv[n : n + len(words)] == list(words)]
    return found[0] if found else -1


@pytest.mark.parametrize(
    "words",
    [
        ("--unshare-pid",),
        ("--unshare-ipc",),
        ("--unshare-uts",),
        ("--unshare-user-try",),
        ("--unshare-cgroup-try",),
        ("--cap-drop", "ALL"),
        ("--die-with-parent",),
        ("--ro-bind", "/", "/"),
        ("--dev", "/dev"),
        ("--proc", "/proc"),
        *(("--ro-bind-try", path, path) for path in KERNEL_SWITCHES),
    ],
    ids=" ".join,
)
def test_the_agent_is_kept_apart_from_the_machine(world: World, words: tuple[str, ...]) -> None:
    assert has(world.argv(), *words)


def test_nothing_of_the_machine_is_bound_writable(world: World) -> None:
    argv = world.argv()
    bound = {argv[n + 2] for n, word in enumerate(argv) if word.startswith("--bind")}
    assert all(Path(path).is_relative_to(world.project) for path in bound)


@pytest.mark.parametrize("network", [True, False])
def test_the_network_is_there_only_where_it_is_wanted(world: World, network: bool) -> None:
    assert has(world.argv(network=network), "--unshare-net") is not network


@pytest.mark.parametrize("network", [True, False])
def test_sockets_of_servers_are_hidden_with_the_network(world: World, network: bool) -> None:
    # A folder that is neither emptied nor the project's.
    with TemporaryDirectory(dir=MEMORY) as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/server")
        server.listen()
        argv = world.argv(network=network)
        assert has(argv, "--ro-bind", "/dev/null", f"{folder}/server") is not network


def test_the_home_is_empty(world: World) -> None:
    assert has(world.argv(), "--tmpfs", str(world.home))


def test_runs_are_readable_but_for_what_the_iteration_writes(world: World) -> None:
    argv = world.argv()
    order = [
        position(argv, "--bind", str(world.project), str(world.project)),
        position(argv, "--ro-bind", str(world.runs), str(world.runs)),
        position(argv, "--bind", str(world.here), str(world.here)),
        position(argv, "--ro-bind", str(world.attempt), str(world.attempt)),
    ]
    assert order == sorted(order)
    assert order[0] >= 0


def test_folders_around_what_is_protected_can_not_be_moved(world: World) -> None:
    around = str(world.runs.parent)
    assert has(world.argv(), "--bind", around, around)


def test_what_is_hidden_can_neither_be_read_nor_written(world: World) -> None:
    (world.project / "secrets").mkdir()
    (world.project / ".env").write_text("KEY=1")
    argv = world.argv(hidden=("secrets", ".env"))
    folder = str(world.project / "secrets")
    assert 0 < position(argv, "--tmpfs", folder) < position(argv, "--remount-ro", folder)
    assert has(argv, "--ro-bind", "/dev/null", str(world.project / ".env"))


def test_what_the_stage_names_is_writable(world: World, tmp_path: Path) -> None:
    cache = world.home / "cache"
    cache.mkdir()
    assert has(world.argv(writable=("~/cache",)), "--bind", str(cache), str(cache))
