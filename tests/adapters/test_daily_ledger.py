"""The ledger of a day: what fits is granted, by several processes, of which some die."""

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.adapters.failing_disk import FailingDisk, no_space
from tests.adapters.ledger_process import CAP, EACH, reserve

from agentforge.adapters.daily_ledger import COMPACT_BYTES, DailyLedger
from agentforge.model.errors import StorageFailed
from agentforge.model.spending import DailyAnswer
from agentforge.ports.ledger import Reservation
from agentforge.testing.fake_clock import FakeClock

PROCESS = ["-m", "tests.adapters.ledger_process"]
CENTS = st.integers(0, 120)
RUNS, KEYS = st.sampled_from(["r", "s"]), st.sampled_from(["1", "2", "3"])
DAY = 24 * 3600.0


def today(clock: FakeClock) -> str:
    return clock.now().astimezone().date().isoformat()


class AnyUse(RuleBasedStateMachine):
    """Compared with sums in whole cents, kept by day."""

    def __init__(self) -> None:
        super().__init__()
        self._scratch = tempfile.TemporaryDirectory(prefix="ledger-")
        self._folder = Path(self._scratch.name) / "daily"
        self._clock = FakeClock()
        self._day = ""
        self._spent = 0
        self._open: dict[tuple[str, str], int] = {}

    @property
    def _ledger(self) -> DailyLedger:
        """As another process has it."""
        return DailyLedger(str(self._folder), self._clock)

    @rule(run=RUNS, key=KEYS, cents=st.integers(1, 120), least=CENTS, cap=CENTS)
    def reserve(self, run: str, key: str, cents: int, least: int, cap: int) -> None:
        # Long enough for the file to be replaced now and then.
        asked = Reservation(run, key, cents / 100, "/p" * 1000)
        if today(self._clock) > self._day:
            self._day, self._spent, self._open = today(self._clock), 0, {}
        self._open.pop((run, key), None)
        others = sum(self._open.values())
        left = min(cents, cap - self._spent - others)
        granted = left if left > 0 and left >= min(cents, least) else 0
        spent = {"spent_usd": self._spent / 100, "reserved_usd": others / 100}
        expected = DailyAnswer(self._day, cap / 100, **spent, granted_usd=granted / 100)
        caps = {self._day: cap / 100}
        assert self._ledger.reserve(asked, min(cents, least) / 100, caps.__getitem__) == expected
        if granted:
            self._open[run, key] = granted

    @rule(run=RUNS, key=KEYS, cents=CENTS)
    def settle(self, run: str, key: str, cents: int) -> None:
        self._ledger.settle(run, key, cents / 100)
        if self._open.pop((run, key), None) is not None:
            self._spent += cents

    @rule(seconds=st.sampled_from([-2 * DAY, -DAY, 3600.0, DAY]))
    def change_the_clock(self, seconds: float) -> None:
        self._clock.set(self._clock.now() + timedelta(seconds=seconds))

    @rule(torn=st.binary(min_size=1, max_size=30))
    def die_while_writing(self, torn: bytes) -> None:
        if self._folder.exists():
            with (self._folder / "ledger.jsonl").open("ab") as file:
                file.write(torn.replace(b"\n", b""))

    @invariant()
    def what_is_open_is_known_and_the_file_is_bounded(self) -> None:
        if not self._folder.exists():
            return
        found = {(one.run, one.key): round(one.usd * 100) for one in self._ledger.open()}
        assert found == self._open
        assert (self._folder / "ledger.jsonl").stat().st_size < 2 * COMPACT_BYTES

    def teardown(self) -> None:
        self._scratch.cleanup()


TestAnyUse = AnyUse.TestCase


# -- several processes


def start(what: str, folder: Path, name: str = "") -> subprocess.Popen[bytes]:
    command = [sys.executable, *PROCESS, what, str(folder), name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_two_runs_spend_no_more_than_one_cap_together(tmp_path: Path) -> None:
    both = [start("spend", tmp_path / "daily", name) for name in ("one", "other")]
    granted = [int(process.communicate()[0]) for process in both]
    assert sum(granted) == round(CAP / EACH)


@pytest.mark.crash
def test_a_process_that_dies_at_any_call_to_the_disk_leaves_what_it_acknowledged(tmp_path: Path) -> None:
    out, _ = start("crash", tmp_path).communicate()
    deaths = [json.loads(line) for line in out.splitlines()]
    assert [one["said"] for one in deaths[:1]] == [""]
    assert deaths[-1] == {"said": "+-+-+-", "left": [], "spent": 0.15, "reserved": 0.0}
    for one in deaths:
        reserved, settled = one["said"].count("+"), one["said"].count("-")
        # One more than was acknowledged may be in the file.
        done, begun = round(one["spent"] / (EACH / 2)), len(one["left"])
        assert settled <= done <= settled + 1
        assert reserved <= done + begun <= reserved + 1
        assert one["reserved"] == pytest.approx(begun * EACH)


def test_a_lock_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    ledger = DailyLedger(str(tmp_path), FakeClock())
    holder = start("hold", tmp_path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(StorageFailed, match="another process has held the lock"):
        ledger.open()
    holder.kill()
    holder.communicate()
    assert reserve(ledger, "r", "1").granted_usd


# -- a ledger that can't be used


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes().split(b"\n")[0])


def is_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def is_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def changed(old: bytes, new: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new)) and None


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (Path.unlink, "is missing"),
        (cut, "was changed or is incomplete"),
        (lambda path: path.write_bytes(b""), "was changed or is incomplete"),
        (changed(b'"usd":0.1', b'"usd":-0.1'), "was changed or is incomplete"),
        (changed(b'"usd":0.1', b'"usd":NaN'), "was changed or is incomplete"),
        (changed(b'"usd":0.1', b'"usd":1e999'), "was changed or is incomplete"),
        (changed(b'"spent":0.0', b'"spent":null'), "was changed or is incomplete"),
        (changed(b'"format":1', b'"format":2'), "was changed or is incomplete"),
        (changed(b'"type":"reserve"', b'"type":"\xff"'), "was changed or is incomplete"),
        (changed(b"}\n", b"}\n\n"), "was changed or is incomplete"),
        (changed(b"}\n", b" " * 5_000_000), "has more than 4,194,304 bytes"),
        (is_a_link, "is a link"),
        (is_a_folder, "is a folder"),
    ],
)
def test_a_ledger_that_someone_changed_is_refused_until_its_folder_is_removed(
    tmp_path: Path, damage: Callable[[Path], None], why: str
) -> None:
    folder = tmp_path / "daily"
    ledger = DailyLedger(str(folder), FakeClock())
    assert reserve(ledger, "r", "1").granted_usd
    damage(folder / "ledger.jsonl")
    for use in (
        ledger.open,
        lambda: ledger.settle("r", "1", 0),
        lambda: reserve(ledger, "r", "2"),
    ):
        with pytest.raises(StorageFailed, match=why) as refused:
            use()
        assert refused.value.message.startswith("what was spent today is unknown: ")
        assert refused.value.hint.endswith(f"or remove {folder} to count this day from $0.00")
    folder.rename(tmp_path / "removed")
    assert reserve(ledger, "r", "1").granted_usd


@pytest.mark.parametrize("name", ["", "lock"])
def test_a_link_in_place_of_the_folder_or_the_lock_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / "daily" / name if name else tmp_path / "daily"
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageFailed, match=f"what was spent today is unknown: {place} is a link") as refused:
        DailyLedger(str(tmp_path / "daily"), FakeClock()).open()
    assert f"remove {tmp_path / 'daily'}" in refused.value.hint
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="privileges: only root can give a file to another user")
def test_a_ledger_of_another_user_is_refused(tmp_path: Path) -> None:
    ledger = DailyLedger(str(tmp_path), FakeClock())
    reserve(ledger, "r", "1")
    os.chown(tmp_path / "ledger.jsonl", 12345, 12345)
    with pytest.raises(StorageFailed, match="belongs to another user"):
        ledger.open()


def test_a_reservation_that_is_not_on_the_disk_is_not_granted(tmp_path: Path) -> None:
    disk = FailingDisk()
    ledger = DailyLedger(str(tmp_path), FakeClock(), disk)
    reserve(ledger, "r", "1")
    for failure in ({"sync": OSError(errno.EIO, "Input/output error")}, {"write": no_space()}):
        disk.fail = dict(failure)
        with pytest.raises(StorageFailed):
            reserve(ledger, "r", "2")
    disk.fail, disk.fail_halfway = {}, no_space()
    with pytest.raises(StorageFailed):
        ledger.settle("r", "1", EACH)
    disk.fail_halfway = None
    assert reserve(ledger, "r", "2").reserved_usd == EACH
    assert disk.synced[-1] == "ledger.jsonl"


def test_a_refusal_releases_what_was_reserved_under_the_same_key(tmp_path: Path) -> None:
    ledger = DailyLedger(str(tmp_path), FakeClock())
    reserve(ledger, "r", "1")
    assert not reserve(ledger, "r", "1", cap=EACH / 2).granted_usd
    assert ledger.open() == ()


def test_a_day_of_many_attempts_stays_small(tmp_path: Path) -> None:
    ledger = DailyLedger(str(tmp_path), FakeClock())
    reserve(ledger, "r", "open")
    for number in range(1500):
        reserve(ledger, "r", str(number), 0.0001)
        ledger.settle("r", str(number), 0.0001)
    assert (tmp_path / "ledger.jsonl").stat().st_size <= COMPACT_BYTES + 1000
    answer = reserve(ledger, "r", "last")
    assert (answer.spent_usd, answer.reserved_usd) == (0.15, EACH)
