"""What the log costs: an append however long it already is, and reading all of it back."""

from pathlib import Path
from time import perf_counter, process_time

from agentforge.adapters.host.machine import SystemClock
from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.layout import RunLayout
from agentforge.model.spending import Amount
from agentforge.runtime.journal import Journal
from agentforge.views.run_model import fold_events
from bench import floors
from bench.long_logs import long_run
from bench.measure import Measure, beside

MAX_REPLAY_RATIO = 3.0
# O(1): the longest log may cost no more than noise above the empty one.
MAX_GROWTH_RATIO = 1.25


def appends(root: Path, lengths: tuple[int, ...], rounds: int) -> list[Measure]:
    """One event appended and synced, on logs of each length in turn; they are longer for it afterwards."""
    writers = {length: JsonlLog(_log(root, length)).open() for length in lengths}
    spent: dict[int, list[float]] = {length: [] for length in lengths}
    plain = floors.PlainLog(root / "plain-appends.jsonl")
    floor: list[float] = []
    now = SystemClock().now()
    fact = f.AttemptStarted(attempt=1, of=2, provider="inprocess", model="none")
    try:
        for _ in range(rounds):
            for length, writer in writers.items():
                event = Event(writer.head.seq + 1, now, "bench", "f" * 32, fact, Cursor("0", 1, 1))
                before, began = writer.head.length, perf_counter()
                writer.append(event)
                writer.sync()
                spent[length].append(perf_counter() - began)
                written = writer.head.length - before
            floor.append(plain.append(b"x" * written))
    finally:
        plain.close()
        for writer in writers.values():
            writer.close()
    measures = [
        beside(f"append + sync, {length:,} events before it", "µs", spent[length], floors.APPEND, floor)
        for length in lengths
    ]
    first, last = lengths[0], lengths[-1]
    growth = f"append + sync, {last:,} events against {first:,}"
    floor_name = f"the same on a log of {first:,} events"
    measures.append(beside(growth, "µs", spent[last], floor_name, spent[first], maximum=MAX_GROWTH_RATIO))
    return measures


def replays(root: Path, lengths: tuple[int, ...], rounds: int) -> list[Measure]:
    """Decode and fold all events; also with the chain verified first, as `status` and `resume` do."""
    return [measure for length in lengths for measure in _replays(_log(root, length), length, rounds)]


def capped_replay(root: Path, length: int, rounds: int) -> list[Measure]:
    """The same run below caps: each attempt has reserved something."""
    path = Path(long_run(root, length, Amount(cost_usd=0.5, tokens=50_000)).log)
    decoded, replayed = [], []
    for _ in range(rounds):
        decoded.append(floors.decode_log(path))
        replayed.append(_replay(path))
    name = f"replay of {length:,} events with reservations"
    return [beside(name, "ms", replayed, floors.DECODE, decoded, maximum=MAX_REPLAY_RATIO)]


def _replays(path: Path, length: int, rounds: int) -> list[Measure]:
    decoded, hashed = [], []
    replayed, inspected, resumed = [], [], []
    for _ in range(rounds):
        decoded.append(floors.decode_log(path))
        replayed.append(_replay(path))
        hashed.append(decoded[-1] + floors.hash_log(path))
        inspected.append(_inspect(path))
        resumed.append(_resume(path))
    replay = f"replay of {length:,} events"
    return [
        beside(replay, "ms", replayed, floors.DECODE, decoded, maximum=MAX_REPLAY_RATIO),
        beside(
            f"{replay}, checked, to inspect", "ms", inspected, floors.VERIFY, hashed, maximum=MAX_REPLAY_RATIO
        ),
        beside(
            f"{replay}, checked, to resume", "ms", resumed, floors.VERIFY, hashed, maximum=MAX_REPLAY_RATIO
        ),
    ]


def _replay(path: Path) -> float:
    """Without the check, which opening the log does before."""
    writer = JsonlLog(path).open()
    began = process_time()
    fold_events(writer.replay())
    took = process_time() - began
    writer.close()
    return took


def _inspect(path: Path) -> float:
    began = process_time()
    fold_events(JsonlLog(path).reader().events())
    return process_time() - began


def _resume(path: Path) -> float:
    began = process_time()
    journal = Journal("replay", JsonlLog(path).open(), SystemClock())
    took = process_time() - began
    journal.close()
    return took


def _log(root: Path, length: int) -> Path:
    return Path((long_run(root, length) if length else RunLayout.of(str(root), "empty")).log)
