"""The ledger of what all runs of the user spend in a day, and what dead runs have left in it."""

import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from agentforge.adapters.daily_ledger import DailyLedger
from agentforge.app.wiring import log_of
from agentforge.engine.decide.daily import GOOD_FOR
from agentforge.model import facts as f
from agentforge.model.errors import AgentForgeError, StorageFailed
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan
from agentforge.model.spending import shown
from agentforge.model.state import RunSettings
from agentforge.model.status import FINAL
from agentforge.model.task import ledger_key
from agentforge.ports.event_log import EventLog
from agentforge.ports.host import Clock
from agentforge.ports.ledger import Ledger, Reservation
from agentforge.runtime.state_folder import StateFolder
from agentforge.runtime.tasks.ledger import RunLedger, spent_usd

log = logging.getLogger("agentforge.run")


def daily_ledger(
    layout: RunLayout,
    plan: Plan,
    settings: RunSettings,
    environ: Mapping[str, str],
    clock: Clock,
    *,
    creates: bool = True,
) -> DailyLedger | None:
    """None if the run has no cap of the day, or spends nothing. Raises StorageFailed if it can't be used.
    `creates`: whether it is created if it was never used; what only asks leaves that to the run."""
    if plan.pipeline.daily_usd is None or settings.mock or settings.replay is not None:
        return None
    folder = StateFolder(layout.root, environ)
    if folder.problem:
        raise StorageFailed(
            f"what all runs spend in a day can't be kept: {folder.problem}",
            hint="set XDG_STATE_HOME to a folder of yours, or remove `limits.daily_usd` from the settings",
        )
    path = os.path.join(folder.root, "daily")
    ledger = DailyLedger(path, clock)
    if creates or os.path.lexists(path):
        ledger.open()
    return ledger


def run_ledger(
    ledger: Ledger, layout: RunLayout, run_id: str, environ: Mapping[str, str], clock: Clock
) -> RunLedger:
    """For a run whose log this process holds; what its earlier engine has left is settled."""
    release = partial(release_left, ledger, environ, clock, set())
    release(own=layout.root)
    return RunLedger(ledger, run_id, layout.root, release)


# A reservation is settled by the engine of its run. If that died, the next process that uses the ledger does
# it: the run's log tells what was spent. What it can't tell counts as spent.
def release_left(
    ledger: Ledger, environ: Mapping[str, str], clock: Clock, named: set[str], own: str = ""
) -> bool:
    """Settle what runs without an engine have reserved and will not settle; returns whether there was
    anything. `named`: the folders of interrupted runs that were named already. `own`: that of the run whose
    log this process holds."""
    left = [(one, _spent(one, environ, clock.now(), is_own=one.folder == own)) for one in ledger.open()]
    for one in (one for one, usd in left if usd is None and one.folder not in {own, *named}):
        if _is_interrupted(one, environ):
            named.add(one.folder)
            log.warning("%s", _interrupted_text(one))
    known = [(one, usd) for one, usd in left if usd is not None]
    for one, usd in known:
        ledger.settle(one.run, one.key, usd)
    return bool(known)


def _is_interrupted(one: Reservation, environ: Mapping[str, str]) -> bool:
    return not log_of(RunLayout(one.folder, os.path.basename(one.folder)), environ).is_held()


def _interrupted_text(one: Reservation) -> str:
    held = f"{shown('cost_usd', one.usd)} of this day is reserved by the interrupted run in {one.folder}"
    return f"{held}: continue it with `agentforge recover`, or cancel it"


def _spent(one: Reservation, environ: Mapping[str, str], now: datetime, *, is_own: bool) -> float | None:
    """None if an engine still settles it, or the next one of its run."""
    session = os.path.basename(one.folder)
    event_log = log_of(RunLayout(one.folder, session), environ)
    if not event_log.exists():
        return one.usd
    if not is_own and event_log.is_held():
        return None
    try:
        return _spent_in(event_log, one, now)
    except AgentForgeError:
        return one.usd


def _spent_in(event_log: EventLog, one: Reservation, now: datetime) -> float | None:
    is_started, is_over, unused_since = False, False, datetime.min.replace(tzinfo=UTC)
    for event in event_log.reader().events():
        fact = event.fact
        if event.trace_id != one.run:
            break
        unused_since = event.at
        is_over = fact.run_status in FINAL if fact.run_status else is_over
        if not isinstance(fact, f.TaskFact) or event.cursor is None:
            continue
        if ledger_key(event.cursor, fact.attempt, fact.KIND) == one.key:
            is_started |= isinstance(fact, f.TaskStarted)
            if isinstance(fact, f.TaskOutcome):
                return spent_usd(fact, one.usd)
    if is_started:
        return one.usd if is_over else None
    # An engine that takes over at once may still use it.
    return 0.0 if is_over or now - unused_since >= GOOD_FOR else None
