"""What a person's resume answers, and what it leaves open."""

from pathlib import Path

import pytest
from tests.engine.plans import plan_of, stage, started

from agentforge.adapters.host.clock import SystemClock
from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.app.runs.resume import Resumption, record_resume
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.layout import RunLayout
from agentforge.model.request import RequestKind
from agentforge.runtime.journal import Journal

AT = Cursor("0", 1, 1)


@pytest.mark.parametrize(
    ("kind", "options", "answered"),
    [
        ("escalation", ("resume", "cancel"), True),
        ("escalation", ("yes", "no"), False),
        ("approval", ("resume", "cancel"), False),
        ("question", ("resume", "stop"), False),
    ],
)
def test_a_resume_answers_escalations_that_offer_it_and_nothing_else(
    tmp_path: Path, kind: RequestKind, options: tuple[str, ...], answered: bool
) -> None:
    layout = RunLayout.of(str(tmp_path), "s")
    journal = Journal("s", JsonlLog(layout.log).open(), SystemClock())
    journal.record(started(plan_of(stage())), Cursor("0", 0, 0))
    journal.record(f.RequestOpened("r-1", kind, "r-1", "why", "May it?", options), AT)
    journal.record(f.SessionPaused("why", ("r-1",)), AT)
    record_resume(journal, layout, Resumption(f.SessionResumed("ada")))
    (request,) = journal.state.requests
    assert request.is_open is not answered
    assert request.answer == ("resume" if answered else None)
    journal.close()
