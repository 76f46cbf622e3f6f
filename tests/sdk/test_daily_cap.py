"""The cap of the day: all runs of a user share it, in every project. What dead runs leave is settled."""

import json
import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import stage
from tests.sdk.projects import engine, node, pipeline, run, run_dir, types

from agentforge.adapters.daily_ledger import DailyLedger
from agentforge.app.runs.daily import release_left
from agentforge.engine.decide.daily import GOOD_FOR
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import StorageFailed
from agentforge.model.place import Place
from agentforge.model.result import Usage
from agentforge.model.status import RunStatus
from agentforge.model.task import AgentTask, ledger_key
from agentforge.ports.ledger import Reservation
from agentforge.ports.provider import Capabilities
from agentforge.runtime.tasks.ledger import RunLedger, spent_usd
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import says

DAILY = "agentforge/daily"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Of a user with a cap of one dollar."""
    settings = tmp_path / "config/agentforge/settings.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("cost: {max_daily_usd: 1.0}\n")
    folders = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")}
    return {"PATH": "/usr/bin:/bin", **folders}


def costing(*costs: float | None) -> ScriptedProvider:
    return ScriptedProvider([says("done", usage=Usage(cost_usd=cost, model="m")) for cost in costs])


def project(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


def agents(runs: int = 1, figure: float = 0.4) -> dict[str, Any]:
    return pipeline(node(runs=runs, max_iteration_cost_usd=figure))


def ledger_of(environ: dict[str, str]) -> DailyLedger:
    return DailyLedger(str(Path(environ["XDG_STATE_HOME"]) / DAILY), FakeClock())


def asked(folder: Path) -> dict[str, Any]:
    log = (run_dir(folder) / "events.jsonl").read_text().splitlines()
    return next(json.loads(line)["data"] for line in reversed(log) if '"type":"request_opened"' in line)


def test_runs_of_two_projects_share_the_cap_and_a_person_grants_more(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    one, other = project(tmp_path, "one"), project(tmp_path, "other")

    async def main() -> None:
        async with engine(one, costing(0.3, None), environ=environ) as sdk:
            assert (await sdk.run(agents(2), session="s")).completed
        async with engine(other, costing(0.1, 0.2), environ=environ) as sdk:
            waiting = await sdk.run(agents(2, figure=0.3), session="s")
            assert waiting.status is RunStatus.PAUSED
            question = asked(other)
            assert (question["reason"], question["grants"]) == ("spending_cap", "cost_usd")
            assert "is at its cap: $0.80 of $1.00 spent by all runs; the next attempt" in question["question"]
            ended = await sdk.answer("s", "0.25")
            assert ended is not None
            assert ended.completed

    run(main())
    assert ledger_of(environ).open() == ()
    assert types(other).count("daily_cap") == 3


def test_a_run_without_a_figure_gets_what_is_left_of_the_day(tmp_path: Path, environ: dict[str, str]) -> None:
    ledger_of(environ).reserve(Reservation("r", "k", 0.7, str(tmp_path / "none")), 0.7, lambda _: 1.0)
    budgets: list[float | None] = []

    class Keeping(ScriptedProvider):
        def capabilities(self) -> Capabilities:
            return replace(super().capabilities(), bounds=("cost_usd",))

    def works(request: Any) -> Any:
        budgets.append(request.budget.cost_usd if request.budget else None)
        return says("done", usage=Usage(cost_usd=0.1))(request)

    folder = project(tmp_path, "one")
    ended = run(
        engine(folder, Keeping([works]), environ=environ, clock=FakeClock()).run(
            pipeline(node()), session="s"
        )
    )
    assert ended.completed
    assert budgets == [pytest.approx(0.3)]


def test_a_ledger_that_cannot_be_used_refuses_the_run_before_it_begins(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    folder = Path(environ["XDG_STATE_HOME"]) / DAILY
    ledger_of(environ).open()
    (folder / "ledger.jsonl").unlink()
    one = project(tmp_path, "one")

    async def main() -> None:
        async with engine(one, costing(0.1), environ=environ) as sdk:
            with pytest.raises(StorageFailed, match="what was spent today is unknown") as refused:
                await sdk.run(agents(), session="s")
            assert f"remove {folder} to count this day" in refused.value.hint
            assert not run_dir(one).exists()
            foretold = await sdk.readiness(sdk.compile(agents(), session="s"))
            assert [problem.message for problem in foretold.problems] == [refused.value.message]

    run(main())
    # A run whose agents are replaced spends nothing, and asks no ledger.
    fixtures = tmp_path / "fixtures"
    fixtures.mkdir()
    (fixtures / "default.txt").write_text("said")
    mocked = {**environ, "MOCK_MODE": "true", "MOCK_FIXTURES_DIR": str(fixtures)}
    assert run(engine(one, costing(0.1), environ=mocked).run(agents(), session="s")).completed
    assert types(one).count("daily_cap") == 1


def test_asking_whether_a_run_can_start_makes_no_ledger(tmp_path: Path, environ: dict[str, str]) -> None:
    async def main() -> None:
        async with engine(project(tmp_path, "one"), costing(0.1), environ=environ) as sdk:
            ready = await sdk.readiness(sdk.compile(agents(), session="s"))
            assert ready.problems == ()

    run(main())
    assert not (Path(environ["XDG_STATE_HOME"]) / DAILY).exists()


def test_a_user_without_a_state_folder_is_told_what_to_set(tmp_path: Path, environ: dict[str, str]) -> None:
    one = project(tmp_path, "one")
    here = {**environ, "XDG_STATE_HOME": str(one / "state")}

    async def main() -> None:
        async with engine(one, costing(0.1), environ=here) as sdk:
            with pytest.raises(StorageFailed, match="is inside the project") as refused:
                await sdk.run(agents(), session="s")
            assert "limits.daily_usd" in refused.value.hint

    run(main())


def test_a_provider_that_nothing_bounds_is_refused_under_the_cap_of_the_day(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    async def main() -> None:
        async with engine(project(tmp_path, "one"), costing(0.1), environ=environ) as sdk:
            compiled = sdk.compile(pipeline(node()), session="s")
            (problem,) = (await sdk.readiness(compiled)).problems
            assert "max_iteration_cost_usd" in problem.hint

    run(main())


# -- what dead runs leave


def ended_run(tmp_path: Path, environ: dict[str, str]) -> Path:
    folder = project(tmp_path, "one")
    assert run(engine(folder, costing(0.25), environ=environ).run(agents(), session="s")).completed
    return run_dir(folder)


@pytest.mark.parametrize(
    ("leaves", "spent"),
    [
        ("its outcome", 0.25),
        ("another key", 0.0),
        ("another run", 0.0),
        ("no log", 0.4),
        ("a log that is no log", 0.4),
        ("its start, cut", None),
        ("nothing, a moment ago", None),
    ],
)
def test_what_a_dead_run_left_is_settled_by_its_log(
    tmp_path: Path,
    environ: dict[str, str],
    leaves: str,
    spent: float | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = ended_run(tmp_path, environ)
    log, clock = folder / "events.jsonl", FakeClock()
    lines = log.read_text().splitlines(keepends=True)
    start = next(number for number, line in enumerate(lines) if '"attempt_start"' in line)
    key = json.loads(lines[start - 1])["data"]["key"]
    match leaves:
        case "another key":
            key = "9/1/1/1/ledger/agent"
        case "no log":
            log.unlink()
        case "a log that is no log":
            log.unlink()
            log.mkdir()
        case "its start, cut":
            log.write_text("".join(lines[: start + 1]))
        case "nothing, a moment ago":
            log.write_text("".join(lines[:start]))
            latest = json.loads(lines[start - 1])["timestamp"]
            clock.set(datetime.fromisoformat(latest) + timedelta(seconds=1))
    (folder / "events.wal").unlink(missing_ok=True)
    ledger = DailyLedger(str(tmp_path / "other ledger"), clock)
    run_id = "r" if leaves == "another run" else identity_of(lines)
    ledger.reserve(Reservation(run_id, key, 0.4, str(folder)), 0.4, lambda _: 9.0)
    named = set[str]()
    assert release_left(ledger, environ, clock, named) is (spent is not None)
    if spent is None:
        assert ledger.open() != ()
        clock.advance(GOOD_FOR.total_seconds())
        released = release_left(ledger, environ, clock, named)
        assert released is (leaves == "nothing, a moment ago"), "an attempt may still be running"
        warned = f"$0.40 of this day is reserved by the interrupted run in {folder}: continue it"
        assert caplog.text.count(warned) == 1
        return
    assert "interrupted" not in caplog.text
    answer = ledger.reserve(Reservation("r", "k", 0.1, ""), 0.1, lambda _: 9.0)
    assert (answer.spent_usd, answer.reserved_usd) == (spent, 0.0)


def identity_of(lines: list[str]) -> str:
    found: str = json.loads(lines[0])["trace_id"]
    return found


def test_a_settlement_that_fails_leaves_the_reservation_and_not_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    ledger = DailyLedger(str(tmp_path / "daily"), clock)
    at = Cursor("0", 1, 1)
    ledger.reserve(Reservation("r", ledger_key(at, 1, "agent"), 0.4, ""), 0.4, lambda _: 9.0)
    (tmp_path / "daily/ledger.jsonl").unlink()
    task = AgentTask(
        Place("0", 1, ""), "plan", 1, 1, started_at=clock.now(), node=stage(), by=stage().provider
    )
    with caplog.at_level(logging.WARNING):
        RunLedger(ledger, "r", "", lambda: False).settle(task, f.AttemptLost(1, "died", started=True))
    assert "what an attempt reserved of the day counts as spent" in caplog.text


@pytest.mark.parametrize(
    ("outcome", "spent"),
    [
        (f.AttemptLost(1, "died", started=True), 0.4),
        (f.AttemptLost(1, "died", started=False), 0.0),
        (f.AttemptCancelled(1), 0.4),
        (f.JudgeLost(1), 0.4),
        (f.JudgeCompleted("completed", f.JudgeResult(stop=True, reason="x"), usage=Usage(cost_usd=0.1)), 0.1),
        (
            f.JudgeCompleted("completed", f.JudgeResult(stop=True, reason="x"), usage=Usage(input_tokens=5)),
            0.4,
        ),
        (f.TimerFired("daily_cap"), 0.0),
    ],
)
def test_outcome_counts_at_its_cost_or_else_at_the_reservation(outcome: f.AnyFact, spent: float) -> None:
    assert spent_usd(outcome, 0.4) == spent
