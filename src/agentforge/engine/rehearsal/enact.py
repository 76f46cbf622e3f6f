"""The run that a cassette is a recording of, as events: decided again, answered by its exchanges."""

from collections.abc import Sequence

import msgspec

from agentforge.engine.evolve.run import evolve
from agentforge.engine.node_keys import key_from
from agentforge.engine.rehearsal.outcomes import Answers
from agentforge.engine.rehearsal.rehearsed_run import RehearsedRun
from agentforge.model import facts as f
from agentforge.model.cassette import Exchange
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.plan import Plan
from agentforge.model.state import RunSettings

STEPS_FOR_EACH = 20
"""Events that an exchange may bring about, at most."""


def enact(plan: Plan, exchanges: Sequence[Exchange], *, plateau_test: bool = False) -> list[Event]:
    """As far as the exchanges go. Raises ValueError where one says nothing about what came of it."""
    at, session = plan.compiled_at, plan.session.name
    settings = RunSettings(delay=0.0, plateau_test=plateau_test)
    started = f.SessionStarted(plan.mode, session, plan, "", settings=settings, format=f.LOG_FORMAT)
    first = Event(1, at, session, session, started, Cursor("0", 0, 0))
    answers = Answers()
    for exchange in exchanges:
        cursor = Cursor("", 1, exchange.iteration)
        key = key_from(exchange.node, exchange.branch, exchange.stage)
        answers.add(key, Event(0, at, session, session, outcome_of(exchange), cursor))
    run = RehearsedRun(plan, evolve(None, first))
    run.go_on(answers, STEPS_FOR_EACH * (len(exchanges) + len(plan.steps) * plan.passes) + 100)
    return [first, *run.events]


def outcome_of(exchange: Exchange) -> f.AnyFact:
    if exchange.kind == "queue" and exchange.remaining is not None:
        return f.QueueChecked(exchange.remaining)
    told = exchange.outcome
    kind = f.FACTS.get(told.type) if told else None
    if told is None or kind is None:
        raise ValueError(f"nothing tells what came of iteration {exchange.iteration} of {exchange.stage!r}")
    try:
        return msgspec.convert({**told.data, "attempt": exchange.attempt}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(
            f"what came of iteration {exchange.iteration} of {exchange.stage!r} can't be read: {error}"
        ) from error
