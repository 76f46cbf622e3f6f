"""What was said to a run's open requests, recorded by the process that owns the run. Its engine decides what
follows."""

from collections.abc import Iterable

from agentforge.engine.decide.requests import defaults, request_waits
from agentforge.model import facts as f
from agentforge.model.layout import RunLayout
from agentforge.model.request import Request
from agentforge.model.secrets import SecretReferences
from agentforge.runtime.answers import Answer, given_answers, stray_answers
from agentforge.runtime.journal import Journal
from agentforge.runtime.refusals import Refusals


def take_answers(
    journal: Journal, layout: RunLayout, requests: Iterable[Request]
) -> list[tuple[Request, Answer]]:
    """The valid answers to these requests; an invalid one is refused, so that another can be given."""
    refusals = Refusals(journal, layout)
    answered = list(given_answers(layout, journal.state.run_id, requests, refusals.add))
    for path, reason in stray_answers(layout, journal.state):
        refusals.add(path, reason)
    refusals.settle()
    return answered


def record_answers(journal: Journal, layout: RunLayout, secrets: SecretReferences) -> bool:
    """Record the answers to the open requests, without secrets. Returns whether there were any."""
    if journal.plan.pipeline.has_escalations:
        # Reads YAML, which few runs need.
        from agentforge.runtime.escalations import place_resolutions

        place_resolutions(layout, journal.state, journal.now(), secrets)
    # An answer after the timeout is too late: the order in the log decides.
    in_time = [request for request in journal.state.open_requests if not request.is_overdue]
    answered = take_answers(journal, layout, in_time)
    for request, answer in answered:
        said, text = secrets.hide(answer.answer), secrets.hide(answer.text)
        known = {*said.secrets, *text.secrets, *secrets.proven(answer.secrets, answer.signed)}
        fact = f.RequestAnswered(request.id, said.text, answer.by, text.text, tuple(sorted(known)))
        journal.record(fact, request.at)
    return bool(answered)


def record_due(journal: Journal, layout: RunLayout, secrets: SecretReferences) -> None:
    """Record the answers, then the default answers of the requests whose time is over."""
    record_answers(journal, layout, secrets)
    now = journal.now()
    for wait in request_waits(journal.state):
        if wait.due_at <= now:
            journal.record(f.TimerFired(wait.timer), journal.state.cursor)
    for draft in defaults(journal.state):
        journal.record(draft.fact, draft.cursor)
