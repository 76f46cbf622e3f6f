"""The engine's side of a claim: what never started can't start any more, and what is ended is waited for."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.model.layout import AttemptLayout
from agentforge.ports.process import Identity
from agentforge.ports.provider import Command
from agentforge.runtime.exit_record import read_claim
from agentforge.runtime.supervision import AttemptLimits, Supervised, SupervisedExit, SupervisorLimits

from .attempt_run import ENV, SUPERVISOR

SOMEBODY = Identity(4711, "1", "boot", "host")
EXITED = {"status": "exited", "exit_code": 0, "signal": None, "duration_ms": 5}


class FakeProcesses:
    """Starts nothing; notes what it is asked for, and does in between what a test wants."""

    def __init__(self, place: AttemptLayout) -> None:
        self.place = place
        self.asked: list[str] = []
        self.on_start: Callable[[str], None] = lambda _: None
        self.on_wait: Callable[[], None] = lambda: None
        self.alive = True

    def identify(self, pid: int) -> Identity | None:
        return SOMEBODY if self.alive else None

    def is_alive(self, identity: Identity) -> bool:
        return self.alive

    def start_supervisor(self, spec_path: str) -> Identity:
        self.asked.append("start")
        self.on_start(spec_path)
        return SOMEBODY

    async def wait(self, identity: Identity) -> None:
        self.asked.append("wait")
        self.on_wait()

    def terminate(self, identity: Identity) -> None:
        self.asked.append("terminate")

    async def end_marked(self, mark: str, seconds: float = 5.0) -> int:
        self.asked.append(f"end {mark}")
        return 0


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
    command = Command(("true",), ENV, **asked)  # type: ignore[arg-type]
    return asyncio.run(supervised.run(place, command, "m", AttemptLimits()))


def claimed(place: AttemptLayout) -> None:
    Path(place.root).mkdir(exist_ok=True)
    text = json.dumps({"pid": 4711, "start_time": "1", "boot_id": "boot", "host": "host"})
    Path(place.claim).write_text(text)


def ended(place: AttemptLayout, **changes: object) -> None:
    Path(place.exit).write_text(json.dumps({**EXITED, **changes}))


def late_supervisor_starts(place: AttemptLayout, tmp_path: Path, spec: str) -> bool:
    """Whether a real supervisor that comes only now runs the agent."""
    late = tmp_path / "late.json"
    late.write_text(spec)
    argv = [sys.executable, "-I", "-S", str(SUPERVISOR), str(late)]
    subprocess.run(argv, check=False, timeout=20)
    return Path(place.exit).exists()


def test_a_supervisor_that_died_before_its_claim_started_nothing_and_no_late_one_can(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout, tmp_path: Path
) -> None:
    specs: list[str] = []
    processes.on_start = lambda path: specs.append(Path(path).read_text())
    left = run(supervised, place)
    assert (left.lost, left.started) == ("its supervisor died", False)
    assert not late_supervisor_starts(place, tmp_path, specs[0])


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
    assert processes.asked == []
    assert Path(place.claim).exists()
    assert read_claim(place) is None


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
def test_an_agent_that_nobody_wanted_any_more_is_lost(
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


def test_what_is_to_run_after_the_agent_is_known_before_its_start(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    known: list[str] = []
    processes.on_start = lambda _: known.append(Path(place.after).read_text())
    run(supervised, place, after=("docker", "rm"))
    assert json.loads(known[0]) == ["docker", "rm"]


def test_secrets_of_the_engine_are_hidden_from_what_the_agent_prints(
    supervised: Supervised, processes: FakeProcesses, place: AttemptLayout
) -> None:
    specs: list[dict] = []
    processes.on_start = lambda path: specs.append(json.loads(Path(path).read_text()))
    run(supervised, place, secrets=("sk-of-the-agent",))
    assert set(specs[0]["secrets"]) == {"sk-of-the-engine", "sk-of-the-agent"}


@pytest.mark.parametrize(("stage", "provider", "kept"), [(5.0, 9.0, 5.0), (9.0, 5.0, 5.0), (None, 9.0, 9.0)])
def test_the_tighter_of_two_time_limits_counts(
    supervised: Supervised,
    processes: FakeProcesses,
    place: AttemptLayout,
    stage: float | None,
    provider: float,
    kept: float,
) -> None:
    specs: list[dict] = []
    processes.on_start = lambda path: specs.append(json.loads(Path(path).read_text()))
    command = Command(("true",), ENV, timeout=provider)
    asyncio.run(supervised.run(place, command, "m", AttemptLimits(stage)))
    assert specs[0]["timeout"] == kept
