"""Bugs in the cap of a day: the ledger, what asks it, and what settles what dead runs left."""

from tests.mutants.mutation import Mutation as Bug

LEDGER = "agentforge.adapters.daily_ledger"
DECIDES = "agentforge.engine.decide.daily"
PERFORMS = "agentforge.runtime.tasks.ledger"
RELEASES = "agentforge.app.runs.daily"
SETTINGS = "agentforge.definition.settings"

OF_LEDGER = ("tests/adapters/test_daily_ledger.py",)
PLAYED = ("tests/engine/test_decide_daily.py",)
RUNS = ("tests/sdk/test_daily_cap.py",)

BUGS = (
    Bug(
        LEDGER,
        "a reservation is granted before it is on the disk",
        "DailyLedger.reserve",
        "self._disk.sync(descriptor)",
        "None",
        OF_LEDGER,
    ),
    Bug(
        LEDGER,
        "what others reserved doesn't count",
        "DailyLedger.reserve",
        "plus(cap, -day.spent, -reserved)",
        "plus(cap, -day.spent)",
        OF_LEDGER,
    ),
    Bug(
        LEDGER,
        "a clock that was set back begins another day",
        "DailyLedger.reserve",
        "today <= latest.day",
        "today == latest.day",
        OF_LEDGER,
    ),
    Bug(
        LEDGER,
        "a ledger that was deleted counts from zero",
        "DailyLedger._open",
        "files.create(self._begun)",
        "None",
        OF_LEDGER,
    ),
    Bug(
        LEDGER,
        "a torn line stays",
        "DailyLedger._read",
        "self._disk.truncate(descriptor, size - len(torn))",
        "None",
        OF_LEDGER,
    ),
    Bug(
        LEDGER,
        "another user's ledger is believed",
        "DailyLedger._open",
        "os.fstat(descriptor).st_uid != os.geteuid()",
        "False",
        OF_LEDGER,
    ),
    Bug(
        DECIDES,
        "an old answer of the ledger counts",
        "_ruling",
        "here.state.updated_at - reply.at >= GOOD_FOR",
        "False",
        PLAYED,
    ),
    Bug(
        DECIDES,
        "the answer to another attempt counts",
        "_ruling",
        "(reply.key, reply.run_usd) != (task.id, task.run_usd)",
        "reply.run_usd != task.run_usd",
        PLAYED,
    ),
    Bug(
        DECIDES,
        "an attempt may use more than was granted",
        "_ruling",
        "min(task.most_usd, answer.granted_usd)",
        "task.most_usd",
        PLAYED,
    ),
    Bug(
        DECIDES,
        "a person is asked although others will settle",
        "_ruling",
        "left > 0 and task.least_usd <= left",
        "False",
        PLAYED,
    ),
    Bug(
        PERFORMS,
        "an attempt is never settled",
        "Settling.perform",
        "self._ledger.settle(task, outcome)",
        "None",
        RUNS,
    ),
    Bug(
        PERFORMS,
        "an attempt that doesn't tell its cost is free",
        "spent_usd",
        "reserved if cost is None else cost",
        "cost or 0.0",
        RUNS,
    ),
    Bug(
        RELEASES,
        "what may still be running is released",
        "_spent_in",
        "one.usd if is_over else None",
        "0.0",
        RUNS,
    ),
    Bug(
        RELEASES,
        "what a run without a log reserved is released",
        "_spent",
        "not event_log.exists()",
        "False",
        RUNS,
    ),
    Bug(
        RELEASES,
        "what dead runs left stays reserved",
        "release_left",
        "ledger.settle(one.run, one.key, usd)",
        "None",
        RUNS,
    ),
    Bug(
        SETTINGS,
        "a project raises what its user may spend",
        "Settings.limits",
        "min(lowest.get(name, value), value, key=lambda one: one.value)",
        "value",
        ("tests/definition/test_settings.py",),
    ),
)
