"""Subscriptions: every event once, in order, to every subscriber; slow ones don't block others."""

import asyncio
from pathlib import Path

import pytest
from tests.engine.plans import plan_of, stage, started
from tests.sdk.projects import Gate, engine, eventually, node, pipeline, run, run_dir, types

from agentforge.adapters.host.machine import SystemClock
from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.updates import Tail
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.runtime.journal import Journal
from agentforge.sdk.engine import Engine


async def collect(
    sdk: Engine, session: str | None, into: list[Event], until: asyncio.Event | None = None
) -> None:
    """The first event is held on to until then."""
    async for event in sdk.subscribe(session):
        into.append(event)
        if until is not None:
            await until.wait()


def names(events: list[Event]) -> list[str]:
    return [event.fact.TYPE for event in events]


@pytest.mark.parametrize(
    ("facts", "is_over"),
    [
        ((), False),
        ((f.SessionPaused("lunch"),), True),
        ((f.SessionPaused("lunch"), f.SessionResumed("ada")), False),
        ((f.SessionPaused("lunch"), f.SessionResumed("ada"), f.SessionCompleted("all")), True),
    ],
)
@pytest.mark.parametrize("is_at_once", [False, True])
def test_run_that_was_resumed_is_not_over(
    tmp_path: Path, facts: tuple[f.AnyFact, ...], is_over: bool, is_at_once: bool
) -> None:
    """Although it had stopped, and its engine died since."""
    runs = Runs(tmp_path)
    journal = Journal("s", JsonlLog(runs.layout("s").log).open(), SystemClock())
    journal.record(started(plan_of(stage())), Cursor("0", 0, 0))
    journal.wait_for_disk()
    tail = Tail(runs, "s")
    for fact in facts:
        if not is_at_once:
            list(tail.news())
        journal.record(fact, Cursor("0", 0, 0))
        journal.wait_for_disk()
    journal.close()
    list(tail.news())
    assert tail.is_over is is_over


def test_subscribe_receives_all_events(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[Event] = []
        async with engine(tmp_path) as sdk:
            following = asyncio.create_task(collect(sdk, None, seen))
            await asyncio.sleep(0)
            await sdk.run(pipeline(node(runs=3)), session="s")
        await following
        assert names(seen) == types(tmp_path)
        assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
        assert all(event.session == "s" for event in seen)

    run(main())


@pytest.mark.requirement("NFR-003")
def test_several_subscribers_and_a_slow_one_does_not_block_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        fast: list[Event] = []
        slow: list[Event] = []
        gate = Gate()
        over = asyncio.Event()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(node(runs=4)), session="s"))
            await gate.working.wait()
            followers = [
                asyncio.create_task(collect(sdk, "s", fast)),
                asyncio.create_task(collect(sdk, "s", slow, over)),
            ]
            await eventually(lambda: slow)
            gate.finish.set()
            assert (await going).completed
            assert len(slow) == 1
            over.set()
            await asyncio.gather(*followers)
        assert names(fast) == names(slow) == types(tmp_path)

    run(main())


def test_subscription_receives_only_durable_events(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            following = asyncio.create_task(_follow_and_compare(sdk, tmp_path))
            await asyncio.sleep(0)
            await sdk.run(pipeline(node(runs=3)), session="s")
        assert await following == len(types(tmp_path))

    run(main())


async def _follow_and_compare(sdk: Engine, project: Path) -> int:
    count = 0
    async for event in sdk.subscribe():
        count += 1
        assert types(project)[event.seq - 1] == event.fact.TYPE
    return count


def test_subscription_of_an_engine_covers_all_its_runs(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[Event] = []
        async with engine(tmp_path) as sdk:
            following = asyncio.create_task(collect(sdk, None, seen))
            await asyncio.sleep(0)
            await asyncio.gather(*(sdk.run(pipeline(), session=name) for name in ("one", "two", "three")))
        await following
        for name in ("one", "two", "three"):
            assert names([event for event in seen if event.session == name]) == types(tmp_path, name)

    run(main())


def test_subscription_continues_when_a_run_is_started_over(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[Event] = []
        async with engine(tmp_path) as sdk:
            following = asyncio.create_task(collect(sdk, None, seen))
            await asyncio.sleep(0)
            await sdk.run(pipeline(node(runs=5)), session="s")
            await eventually(lambda: names(seen)[-1:] == ["session_complete"])
            await sdk.run(pipeline(node(runs=1)), session="s", force=True)
        await following
        started = [event.trace_id for event in seen if event.fact.TYPE == "session_start"]
        assert len(set(started)) == 2
        assert names([event for event in seen if event.trace_id == started[1]]) == types(tmp_path)

    run(main())


def test_subscription_to_a_paused_run_ends_and_a_later_one_has_the_rest(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(node(runs=2)), session="s"))
            await gate.working.wait()
            first: list[Event] = []
            following = asyncio.create_task(collect(sdk, "s", first))
            await sdk.pause("s")
            gate.finish.set()
            await asyncio.gather(going, following)
            assert names(first)[-1] == "session_paused"
            await sdk.resume("s")
            again: list[Event] = []
            await collect(sdk, "s", again)
            assert names(again) == types(tmp_path)

    run(main())


def test_subscriber_that_leaves_early_is_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.run(pipeline(), session="s")
            events = sdk.subscribe("s")
            assert (await anext(events)).fact.TYPE == "session_start"
            await events.aclose()  # type: ignore[attr-defined]
            assert not sdk._context.follower._waiting

    run(main())


def test_subscription_to_a_run_that_another_engine_drives(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as driving, engine(tmp_path) as watching:
            going = asyncio.create_task(driving.run(pipeline(), session="s"))
            await gate.working.wait()
            seen: list[Event] = []
            following = asyncio.create_task(collect(watching, "s", seen))
            gate.finish.set()
            await asyncio.gather(going, following)
        assert names(seen) == types(tmp_path)

    run(main())


def test_tail_of_a_run_that_awaits_approval_is_over(tmp_path: Path) -> None:
    runs = Runs(tmp_path, {})
    journal = Journal("s", JsonlLog(runs.layout("s").log).open(), SystemClock())
    journal.record(started(plan_of(stage())), Cursor("0", 0, 0))
    asked = f.RequestOpened("r-1", "approval", "r-1", "why", "May it?", ("yes", "no"))
    journal.record(asked, Cursor("0", 0, 0))
    journal.record(f.AwaitingApproval(("r-1",)), Cursor("0", 0, 0))
    journal.close()
    tail = Tail(runs, "s")
    assert names(list(tail.news()))[-1] == "awaiting_approval"
    assert tail.is_over


def test_tail_of_a_log_that_is_removed_and_restored_repeats_no_event(tmp_path: Path) -> None:
    runs = Runs(tmp_path, {})
    path = Path(runs.layout("s").log)
    journal = Journal("s", JsonlLog(str(path)).open(), SystemClock())
    journal.record(started(plan_of(stage())), Cursor("0", 0, 0))
    journal.close()
    tail = Tail(runs, "s")
    assert names(list(tail.news())) == ["session_start"]
    aside = path.rename(tmp_path / "aside")
    assert list(tail.news()) == []
    aside.rename(path)
    assert list(tail.news()) == []


def test_subscription_to_all_runs_continues_after_the_log_of_one_is_removed(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[Event] = []
        async with engine(tmp_path) as sdk:
            following = asyncio.create_task(collect(sdk, None, seen))
            await sdk.run(pipeline(), session="first")
            await eventually(lambda: names(seen)[-1:] == ["session_complete"])
            (run_dir(tmp_path, "first") / "events.jsonl").unlink()
            await sdk.run(pipeline(), session="second")
        await following
        assert names([event for event in seen if event.session == "second"]) == types(tmp_path, "second")

    run(main())
