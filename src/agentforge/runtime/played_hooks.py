"""The recorded answers of hooks: a replay calls no service, runs no script and calls no function."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from agentforge.engine.nodes import recorded_key
from agentforge.engine.rehearsal.rehearsed_run import outcome_of
from agentforge.model import facts as f
from agentforge.model.cassette import Cassette, Exchange
from agentforge.model.hook import CALL_POINTS
from agentforge.model.plan import Plan
from agentforge.model.task import HookTask

PlayedOutcome = f.HookCompleted | f.HookFailed | f.HookTimedOut
_Site = tuple[str, str, str, str, int]
"""The hook, and the node, branch, stage of the branch and iteration at which it is called."""


class PlayedHooks:
    def __init__(self, plan: Plan, load: Callable[[], Cassette]) -> None:
        self._plan = plan
        self._load = load
        self._exchanges: list[Exchange] | None = None
        self._calls: dict[_Site, list[str]] = {}
        """The deliveries of this run, in the order in which they began."""

    def outcome(self, task: HookTask) -> PlayedOutcome:
        found = self._recorded(task)
        if found is not None:
            return replace(found, **task.names)
        if task.hook.point in CALL_POINTS:
            # People resume a replay and answer its requests for reasons of their own.
            return f.HookCompleted(**task.names)
        where = f"iteration {task.iteration} of stage {task.name!r}" if task.name else "the run"
        return f.HookFailed(**task.names, message=f"the cassette has no answer of this hook at {where}")

    def _recorded(self, task: HookTask) -> PlayedOutcome | None:
        site = self._site(task)
        calls = self._calls.setdefault(site, [])
        if task.delivery not in calls:
            calls.append(task.delivery)
        if self._exchanges is None:
            self._exchanges = [exchange for exchange in self._load().exchanges if exchange.hook]
        exchanges = [exchange for exchange in self._exchanges if _site_of(exchange) == site]
        recorded = list(dict.fromkeys(_deliveries(exchanges)))
        number = calls.index(task.delivery)
        if number >= len(recorded):
            return None
        for exchange in exchanges:
            is_call = exchange.hook is not None and exchange.hook.delivery == recorded[number]
            if is_call and exchange.attempt in (None, task.attempt):
                return _outcome(exchange)
        return None

    def _site(self, task: HookTask) -> _Site:
        node, branch = recorded_key(self._plan, task.place.path, task.place.run), task.place.branch or ""
        return task.hook.id, node, branch, task.name if branch else "", task.iteration


def _site_of(exchange: Exchange) -> _Site | None:
    if exchange.hook is None:
        return None
    stage = exchange.stage if exchange.branch else ""
    return exchange.hook.id, exchange.node, exchange.branch, stage, exchange.iteration


def _deliveries(exchanges: list[Exchange]) -> Iterator[str]:
    return (exchange.hook.delivery for exchange in exchanges if exchange.hook is not None)


def _outcome(exchange: Exchange) -> PlayedOutcome | None:
    try:
        fact = outcome_of(exchange)
    except ValueError:
        return None
    return fact if isinstance(fact, PlayedOutcome) else None
