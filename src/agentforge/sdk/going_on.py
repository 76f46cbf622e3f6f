"""The first words of a run in its log, and a person's word that it goes on."""

import uuid
from collections.abc import Mapping

from agentforge import __version__
from agentforge.definition.compiler import Compiled
from agentforge.engine.ruling import RESUME
from agentforge.model import facts as f
from agentforge.model.errors import InvalidRequest
from agentforge.model.layout import RunLayout
from agentforge.model.status import RunStatus
from agentforge.runtime.control import Answer, answer, drop_pauses
from agentforge.runtime.journal import Journal
from agentforge.runtime.supervised import MARK


def session_started(compiled: Compiled, settings: f.Settings) -> f.SessionStarted:
    plan = compiled.plan
    only = plan.only_stage if plan.mode == "loop" else None
    return f.SessionStarted(
        mode=plan.mode,
        run_id=uuid.uuid4().hex,
        plan=plan,
        engine=__version__,
        stage=only.stage if only else None,
        stage_name=only.name or only.id if only else None,
        pipeline=None if only else plan.pipeline.name,
        pipeline_file=None if only else plan.source.path,
        settings=settings,
        format=f.LOG_FORMAT,
    )


def refuse_own_agent(journal: Journal, environ: Mapping[str, str]) -> None:
    """A run's own agents never answer for a person."""
    if environ.get(MARK, "").startswith(f"{journal.state.run_id}/"):
        raise InvalidRequest(
            f"an agent of session {journal.session!r} may not resume it", hint="a person has to"
        )


def say_go_on(
    journal: Journal, layout: RunLayout, resumed: f.SessionResumed, taken_up: f.SessionRecovered
) -> None:
    """Answer the escalations that offer it, and record that the run goes on: `resumed`, or `taken_up` where
    nobody had stopped it. What else was asked stays open."""
    drop_pauses(layout)
    for request in journal.state.open_requests:
        if request.kind == "escalation" and RESUME in request.options:
            given = answer(layout, Answer(request.id, RESUME, resumed.by))
            # Somebody may have been first, and the first answer stands.
            journal.record(f.RequestAnswered(request.id, given.answer, given.by), request.at)
    is_running = journal.state.status is RunStatus.RUNNING
    journal.record(taken_up if is_running else resumed, journal.state.cursor)
