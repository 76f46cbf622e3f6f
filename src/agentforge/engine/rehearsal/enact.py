"""Reconstructs the events of a recorded run: decided again, with outcomes from a cassette."""

from collections.abc import Sequence

import msgspec

from agentforge.engine.evolve.run import evolve
from agentforge.engine.node_identity import parse_key
from agentforge.engine.rehearsal.outcomes import Answers, PastReply, RequestKey
from agentforge.engine.rehearsal.rehearsed_run import RehearsedRun
from agentforge.model import facts as f
from agentforge.model.cassette import Exchange, RecordedAnswer
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.plan import Plan
from agentforge.model.state import RunSettings, Waiver

MAX_EVENTS_PER_EXCHANGE = 20
"""The maximum number of events that one exchange causes."""


def enact(
    plan: Plan,
    exchanges: Sequence[Exchange],
    *,
    plateau_test: bool = False,
    waivers: tuple[Waiver, ...] = (),
) -> list[Event]:
    """The events, as far as the exchanges reach. Raises ValueError if an exchange has no outcome."""
    at, session = plan.compiled_at, plan.session.name
    settings = RunSettings(delay=0.0, plateau_test=plateau_test)
    started = f.SessionStarted(
        plan.mode, session, plan, "", settings=settings, format=f.LOG_FORMAT, waivers=waivers
    )
    first = Event(1, at, session, session, started, Cursor("0", 0, 0))
    answers = Answers()
    for exchange in exchanges:
        key = parse_key(exchange.node, exchange.branch, exchange.stage)
        if exchange.answer is not None:
            answers.add_reply(*reply_of(exchange, exchange.answer))
            continue
        cursor = Cursor("", 1, exchange.iteration)
        answers.add(key, Event(0, at, session, session, outcome_of(exchange), cursor))
    run = RehearsedRun(plan, evolve(None, first))
    run.advance(answers, MAX_EVENTS_PER_EXCHANGE * (len(exchanges) + len(plan.steps) * plan.passes) + 100)
    return [first, *run.events]


def reply_of(exchange: Exchange, given: RecordedAnswer) -> tuple[RequestKey, PastReply]:
    """A recorded answer, and which request it is for. The request gets its id when it is opened."""
    place = parse_key(exchange.node, exchange.branch, exchange.stage)
    key = (place, exchange.iteration, exchange.attempt or 0, given.reason, given.subject)
    waived = tuple(f.CheckWaived(each.check, each.reason, each.by) for each in given.waivers)
    return key, PastReply(f.RequestAnswered("", given.answer, given.by, text=given.text), waived)


def outcome_of(exchange: Exchange) -> f.AnyFact:
    if exchange.kind == "queue" and exchange.remaining is not None:
        return f.QueueChecked(exchange.remaining)
    outcome = exchange.outcome
    kind = f.FACTS.get(outcome.type) if outcome else None
    if outcome is None or kind is None:
        raise ValueError(f"iteration {exchange.iteration} of {exchange.stage!r} has no recorded outcome")
    try:
        return msgspec.convert({**outcome.data, "attempt": exchange.attempt}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(
            f"the outcome of iteration {exchange.iteration} of {exchange.stage!r} is invalid: {error}"
        ) from error
