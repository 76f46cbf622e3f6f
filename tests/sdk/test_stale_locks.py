"""Which lock files are stale: by who wrote them, not by a pid alone, and never while the run is driven."""

import asyncio
import concurrent.futures.thread  # noqa: F401 - loaded before the descriptors are used up
import fcntl
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtime.test_supervised_claims import FakeProcesses

from agentforge.adapters.host.machine import SystemClock
from agentforge.app.runs.compilation import merged
from agentforge.app.runs.leases import Leases
from agentforge.app.runs.lock_folder import read_lock, write_lock
from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.trust import Trust
from agentforge.model.errors import StorageFailed
from agentforge.model.layout import AttemptLayout, lock_file
from agentforge.model.plan import Overrides
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import returns

from .projects import ENVIRON, engine, load, node, pipeline, run, run_dir, types


@pytest.fixture
def processes(tmp_path: Path) -> FakeProcesses:
    """By whom the lock was written lives, until a test says otherwise."""
    return FakeProcesses(AttemptLayout(str(tmp_path)))


def leases_of(project: Path, processes: FakeProcesses) -> Leases:
    runs = Runs(str(project), {"PATH": "/usr/bin:/bin"})
    return Leases(runs, processes, SystemClock(), Trust(runs))


@pytest.fixture
def leases(tmp_path: Path, processes: FakeProcesses) -> Leases:
    made = leases_of(tmp_path, processes)
    write_lock(str(tmp_path), "s", processes, SystemClock().now())
    return made


class Reborn(FakeProcesses):
    """The owner's pid is another process's by now."""

    def is_alive(self, identity: object) -> bool:
        return False


def test_lock_file_is_gone_before_the_lease_is_free(leases: Leases, tmp_path: Path) -> None:
    """Otherwise it would remove the lock file of the engine that takes the lease next."""
    lock, found = Path(lock_file(str(tmp_path), "s")), []
    journal = leases.open("s")
    assert lock.exists()
    journal.observe(lambda: found.append(lock.exists()))
    leases.release(journal)
    assert found == [False]


def test_lock_that_another_engine_wrote_in_the_meantime_stays(leases: Leases, tmp_path: Path) -> None:
    class Replaced(FakeProcesses):
        """Its owner is dead, and another engine takes the run."""

        def is_alive(self, identity: object) -> bool:
            write_lock(str(tmp_path), "s", self, SystemClock().now())
            return False

    before = read_lock(str(tmp_path), "s")
    asyncio.run(leases_of(tmp_path, Replaced(AttemptLayout(str(tmp_path)))).clean())
    now = read_lock(str(tmp_path), "s")
    assert now is not None
    assert now != before


def test_stale_lock_of_a_run_that_was_not_started_here_stays(
    processes: FakeProcesses, tmp_path: Path
) -> None:
    made = engine(tmp_path, environ={**ENVIRON, "XDG_STATE_HOME": str(tmp_path.parent / "elsewhere")})
    run(made.start(made.compile(pipeline(node()), session="s")))
    write_lock(str(tmp_path), "s", processes, SystemClock().now())
    processes.alive = False
    assert asyncio.run(leases_of(tmp_path, processes).clean()) == set()
    assert read_lock(str(tmp_path), "s") is not None


def test_run_that_another_engine_has_continued_is_not_archived(leases: Leases, tmp_path: Path) -> None:
    made = engine(tmp_path)
    run(made.start(made.compile(pipeline(node()), session="s")))
    lines = (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run_dir(tmp_path) / "events.jsonl").write_bytes(b"".join(lines[:-1]))
    assert not leases.archive("s")
    assert run_dir(tmp_path).exists()
    (run_dir(tmp_path) / "events.jsonl").write_bytes(b"".join(lines))
    assert leases.archive("s")
    assert not run_dir(tmp_path).exists()


def test_a_lock_whose_owner_lives_stays(leases: Leases, tmp_path: Path) -> None:
    assert asyncio.run(leases.clean()) == set()
    assert Path(lock_file(str(tmp_path), "s")).exists()


def test_a_lock_whose_owner_s_pid_was_given_away_is_stale(leases: Leases, tmp_path: Path) -> None:
    reborn = Reborn(AttemptLayout(str(tmp_path)))
    others = leases_of(tmp_path, reborn)
    assert asyncio.run(others.clean()) == {"s"}
    assert not Path(lock_file(str(tmp_path), "s")).exists()


@pytest.mark.parametrize("held", [".claude/pipeline-runs/s/events.jsonl", ".claude/locks/s.lock"])
def test_a_lock_whose_run_is_driven_stays_regardless_of_its_writer(
    leases: Leases, processes: FakeProcesses, tmp_path: Path, held: str
) -> None:
    processes.alive = False
    (tmp_path / held).parent.mkdir(parents=True, exist_ok=True)
    with (tmp_path / held).open("a") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        assert asyncio.run(leases.clean()) == set()
    assert asyncio.run(leases.clean()) == {"s"}


def test_another_provider_begins_without_the_model_and_settings_of_the_one_before() -> None:
    before = Overrides(provider="claude", model="opus", config={"effort": "high"})
    assert (merged(before, Overrides()).model, merged(before, Overrides()).config) == (
        "opus",
        {"effort": "high"},
    )
    changed = merged(before, Overrides(provider="codex"))
    assert (changed.provider, changed.model, changed.config) == ("codex", None, {})
    assert merged(before, Overrides(provider="codex", model="gpt")).model == "gpt"


class LastDescriptors(ScriptedProvider):
    """Works, and leaves the engine no descriptor for state.json; the log is open already."""

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        done = await super().execute(request)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        return done


def test_state_file_that_could_not_be_written_at_the_end_is_written_by_the_next_cleanup(
    tmp_path: Path,
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    made = engine(tmp_path, LastDescriptors([returns("done")], uses_files=False))
    try:
        with pytest.raises(StorageFailed, match=r"state\.json"):
            run(made.start(made.compile(pipeline(node()), session="s")))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert types(tmp_path)[-1] == "session_complete"
    assert load(run_dir(tmp_path) / "state.json")["status"] == "running"
    made.tidy()
    assert load(run_dir(tmp_path) / "state.json")["status"] == "completed"
    assert not Path(lock_file(str(tmp_path), "s")).exists()


ODD = {
    "folder": lambda path: path.mkdir(),
    "FIFO": os.mkfifo,
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "dangling link": lambda path: path.symlink_to("missing"),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_what_is_not_a_lock_file_does_not_prevent_a_run(tmp_path: Path, make: Callable[[Path], None]) -> None:
    lock = Path(lock_file(str(tmp_path), "s"))
    lock.parent.mkdir(parents=True)
    make(lock)

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            assert (await sdk.run(pipeline(), session="s")).completed

    run(main())
    assert not lock.exists()
