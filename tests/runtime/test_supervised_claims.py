"""The engine's side of a claim: what never started can't start any more, and what is ended is waited for."""

import asyncio
import json
import marshal
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.processes_contract import ProcessesContract

from agentforge.model.layout import AttemptLayout
from agentforge.ports.host import Identity
from agentforge.ports.provider import Command
from agentforge.runtime.attempt_folder import is_foreign, make_folder, read_claim
from agentforge.runtime.left_files import leave
from agentforge.runtime.supervision import AttemptLimits, Supervised, SupervisedExit, SupervisorLimits

from .attempt_run import ENV, AttemptRun

SOMEBODY = Identity(4711, "1", "boot", "host")
EXITED = {
    "mark": "AGENTFORGE_ATTEMPT=m",
    "status": "exited",
    "exit_code": 0,
    "signal": None,
    "duration_ms": 5,
}


class FakeProcesses:
    """Starts nothing; notes what it is asked for, and does in between what a test wants.

    The supervisor, which an earlier engine may have started, runs until it is waited for."""

    def __init__(self, place: AttemptLayout) -> None:
        self.place = place
        self.asked: list[str] = []
        self.specs: list[dict[str, Any]] = []
        self.on_wait: Callable[[], object] = lambda: None
        self.alive = True
        self.marked: list[str] = []
        """The mark of each process that has one."""

    def identify(self, pid: int) -> Identity | None:
        writer = Identity(os.getpid(), "2", "boot", "host")
        return {SOMEBODY.pid: SOMEBODY, writer.pid: writer}.get(pid) if self.alive else None

    def is_alive(self, identity: Identity) -> bool:
        return self.identify(identity.pid) == identity

    async def start_supervisor(self, folder: str, spec: bytes) -> Identity:
        assert folder == self.place.root
        self.asked.append("start")
        self.specs.append(marshal.loads(spec))
        self.alive = True
        return SOMEBODY

    async def wait(self, identity: Identity) -> None:
        self.asked.append("wait")
        if self.is_alive(identity):
            self.on_wait()
            self.alive = False

    def terminate(self, identity: Identity) -> None:
        self.asked.append("terminate")

    def supervisors(self) -> Mapping[Identity, str]:
        return {SOMEBODY: self.place.root} if self.alive else {}

    async def end_marked(self, mark: str, seconds: float = 5.0) -> int:
        self.asked.append(f"end {mark}")
        ended = self.marked.count(mark)
        self.marked = [other for other in self.marked if other != mark]
        return ended

    def inherited(self, variable: str) -> frozenset[str]:
        return frozenset()


class TestFakeProcesses(ProcessesContract):
    @pytest.fixture
    def processes(self, folder: Path) -> FakeProcesses:
        return FakeProcesses(AttemptLayout(str(folder)))

    @pytest.fixture
    def spec(self) -> bytes:
        return marshal.dumps({})

    @pytest.fixture
    def start_marked(self, processes: FakeProcesses) -> Callable[[str], object]:
        return processes.marked.append


@pytest.fixture
def place(tmp_path: Path) -> AttemptLayout:
    return AttemptLayout(str(tmp_path / "attempt-1"))


@pytest.fixture
def processes(place: AttemptLayout) -> FakeProcesses:
    return FakeProcesses(place)


@pytest.fixture
def supervised(tmp_path: Path, processes: FakeProcesses) -> Supervised:
    return Supervised(
        processes, SupervisorLimits(), str(tmp_path), str(tmp_path / "log"), secrets=("sk-of-the-engine",)
    )


def run(supervised: Supervised, place: AttemptLayout, **asked: object) -> SupervisedExit:
    make_folder(place, leave)
    command = Command(("true",), ENV, **asked)  # type: ignore[arg-type]
    return asyncio.run(supervised.run(place, command, "m", AttemptLimits()))


def claimed(attempt: AttemptLayout, **changes: object) -> None:
    Path(attempt.root).mkdir(exist_ok=True)
    found = Path(attempt.root).stat()
    claim = {
        "pid": 4711,
        "start_time": "1",
        "boot_id": "boot",
        "host": "host",
        "mark": "AGENTFORGE_ATTEMPT=m",
        "place": {"path": attempt.root, "device": found.st_dev, "inode": found.st_ino},
    }
    Path(attempt.claim).write_text(json.dumps({**claim, **changes}))


def ended(place: AttemptLayout, **changes: object) -> None:
    Path(place.exit).write_text(json.dumps({**EXITED, **changes}))


def late_supervisor_starts(place: AttemptLayout, spec: dict[str, Any]) -> bool:
    """Whether a real supervisor that comes only now runs the agent."""
    late = AttemptRun(Path(place.root))
    child, connection = late.spawn()
    with connection:
        connection.recv(1)
        connection.sendall(marshal.dumps(spec))
    assert child.wait(60) == 3
    return Path(place.exit).exists()


def test_a_supervisor_that_died_before_its_claim_started_nothing_and_no_late_one_can(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    left = run(supervised, place)
    assert (left.lost, left.started) == ("its supervisor died", False)
    assert not late_supervisor_starts(place, processes.specs[0])


def test_a_supervisor_that_died_after_its_claim_may_have_started_the_agent(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    processes.on_wait = lambda: claimed(place)
    left = run(supervised, place)
    assert (left.lost, left.started) == ("its supervisor died", True)
    assert processes.asked == ["start", "wait", "end AGENTFORGE_ATTEMPT=m"]


def test_what_is_ended_before_it_was_started_can_not_start_any_more(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    left = asyncio.run(supervised.end(place, "m"))
    assert (left.lost, left.started) == ("ended before it was started", False)
    assert not {"terminate", "wait", "end AGENTFORGE_ATTEMPT=m"} & set(processes.asked)
    assert Path(place.claim).exists()
    assert read_claim(place, "m") is None


def test_what_an_earlier_engine_never_started_can_not_start_any_more(
    supervised: Supervised, place: AttemptLayout
) -> None:
    left = asyncio.run(supervised.reattach(place, "m", lambda _: None))
    assert not left.started
    assert Path(place.claim).exists()


def test_ending_waits_and_takes_what_the_agent_had_done_by_then(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    claimed(place)
    processes.on_wait = lambda: ended(place)
    left = asyncio.run(supervised.end(place, "m"))
    assert processes.asked == ["terminate", "wait"]
    assert left.record is not None
    assert left.record.status == "exited"


def test_ending_what_leaves_no_record_ends_its_leftovers(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    claimed(place)
    left = asyncio.run(supervised.end(place, "m"))
    assert left.lost == "ended on request"
    assert processes.asked == ["terminate", "wait", "end AGENTFORGE_ATTEMPT=m"]


@pytest.mark.parametrize("status", ["orphaned", "ended"])
def test_an_agent_that_no_engine_reattached_to_is_lost(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout, status: str
) -> None:
    claimed(place)
    ended(place, status=status)
    left = asyncio.run(supervised.reattach(place, "m", lambda _: None))
    assert left.record is None
    assert left.lost


def test_half_an_exit_record_is_none(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    claimed(place)
    Path(place.exit).write_text('{"status": "exi')
    processes.alive = False
    left = asyncio.run(supervised.reattach(place, "m", lambda _: None))
    assert (left.lost, left.started) == ("its supervisor died", True)


def test_secrets_of_the_engine_are_hidden_from_what_the_agent_prints(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    run(supervised, place, secrets=("sk-of-the-agent",))
    assert set(processes.specs[0]["secrets"]) == {"sk-of-the-engine", "sk-of-the-agent"}


FOREIGN = "AGENTFORGE_ATTEMPT=another"


@pytest.mark.parametrize("act", ["reattach", "end"])
@pytest.mark.parametrize("alive", [False, True])
def test_records_of_another_attempt_do_not_count(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout, act: str, alive: bool
) -> None:
    claimed(place, mark=FOREIGN)
    ended(place, mark=FOREIGN)
    processes.alive = alive
    left = asyncio.run(reattach_or_end(supervised, place, act))
    assert (left.record, left.started) == (None, False)
    assert not {"terminate", "wait", "end AGENTFORGE_ATTEMPT=m"} & set(processes.asked)


@pytest.mark.parametrize("act", ["reattach", "end"])
def test_exit_record_counts_if_the_claim_was_removed(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout, act: str
) -> None:
    claimed(place)
    Path(place.claim).unlink()
    ended(place)
    left = asyncio.run(reattach_or_end(supervised, place, act))
    assert left.record is not None
    assert processes.asked == []


def test_the_exit_record_of_another_attempt_does_not_count_beside_our_own_claim(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    claimed(place)
    ended(place, mark=FOREIGN)
    processes.alive = False
    left = asyncio.run(supervised.reattach(place, "m", lambda _: None))
    assert (left.record, left.lost) == (None, "its supervisor died")


def test_a_supervisor_that_finds_the_claim_of_another_started_nothing(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    processes.on_wait = lambda: (claimed(place, mark=FOREIGN), ended(place, mark=FOREIGN))
    left = run(supervised, place)
    assert (left.record, left.started) == (None, False)


@pytest.mark.parametrize("act", ["reattach", "end"])
def test_a_copy_leaves_the_agent_of_the_original_alone(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout, act: str
) -> None:
    claimed(place, place={"path": "/the/original/attempt-1", "device": 1, "inode": 2})
    left = asyncio.run(reattach_or_end(supervised, place, act))
    assert (left.lost, left.started) == (
        "it belongs to another copy of the project: /the/original/attempt-1",
        True,
    )
    assert processes.asked == []


@pytest.mark.parametrize("act", ["reattach", "end"])
def test_a_copy_has_the_outcome_that_was_copied(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout, act: str
) -> None:
    claimed(place, place={"path": "/the/original/attempt-1", "device": 1, "inode": 2})
    ended(place)
    left = asyncio.run(reattach_or_end(supervised, place, act))
    assert left.record is not None
    assert processes.asked == []


@pytest.mark.parametrize("change", [{"path": "/moved/from"}, {"device": 1, "inode": 2}])
def test_a_moved_or_restored_folder_keeps_its_agent(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout, change: dict[str, object]
) -> None:
    claimed(place)
    found = Path(place.root).stat()
    here = {"path": place.root, "device": found.st_dev, "inode": found.st_ino}
    claimed(place, place={**here, **change})
    processes.on_wait = lambda: ended(place)
    assert asyncio.run(supervised.reattach(place, "m", lambda _: None)).record is not None
    assert processes.asked == ["wait"]


async def reattach_or_end(supervised: Supervised, place: AttemptLayout, act: str) -> SupervisedExit:
    if act == "end":
        return await supervised.end(place, "m")
    return await supervised.reattach(place, "m", lambda _: None)


def refuse(path: str, reason: str) -> None:
    assert reason == "it existed before its attempt was started"
    os.rename(path, f"{path}.refused")


def test_what_is_found_in_the_folder_of_a_new_attempt_is_refused(place: AttemptLayout) -> None:
    claimed(place, mark=FOREIGN)
    make_folder(place, refuse)
    assert list(Path(place.root).iterdir()) == []
    assert Path(f"{place.root}.refused", "claim").exists()


@pytest.mark.parametrize(
    ("planted", "foreign"),
    [
        ({}, False),
        ({"claim": ""}, False),
        ({"claim": "", "claim.123": "{}", "outbox": ""}, False),
        ({"claim": "{}"}, True),
        ({"claim": "", "output.log": ""}, True),
        ({"exit.json": "{}"}, True),
    ],
)
def test_what_no_engine_left_in_the_folder_of_an_attempt_that_never_started_is_foreign(
    place: AttemptLayout, planted: dict[str, str], foreign: bool
) -> None:
    Path(place.root).mkdir()
    for name, text in planted.items():
        Path(place.root, name).write_text(text)
    assert is_foreign(place) is foreign


def test_a_claim_that_is_a_folder_is_foreign(place: AttemptLayout) -> None:
    Path(place.claim).mkdir(parents=True)
    assert is_foreign(place)


@pytest.mark.parametrize("kind", ["link", "dangling", "file", "fifo"])
def test_whatever_has_the_name_of_the_folder_is_moved_aside(
    place: AttemptLayout, tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "elsewhere"
    if kind != "dangling":
        target.mkdir()
    match kind:
        case "file":
            Path(place.root).write_text("")
        case "fifo":
            os.mkfifo(place.root)
        case _:
            Path(place.root).symlink_to(target)
    make_folder(place, refuse)
    assert Path(place.root).is_dir()
    assert not Path(place.root).is_symlink()
    Path(place.claim).touch()
    assert kind == "dangling" or list(target.iterdir()) == []


@pytest.mark.parametrize(("stage", "provider", "kept"), [(5.0, 9.0, 5.0), (9.0, 5.0, 5.0), (None, 9.0, 9.0)])
def test_the_tighter_of_two_time_limits_counts(
    supervised: Supervised,
    processes: FakeProcesses,
    place: AttemptLayout,
    stage: float | None,
    provider: float,
    kept: float,
) -> None:
    make_folder(place, leave)
    command = Command(("true",), ENV, timeout=provider)
    asyncio.run(supervised.run(place, command, "m", AttemptLimits(stage)))
    assert processes.specs[0]["timeout"] == kept
