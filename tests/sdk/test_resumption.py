"""What a person's resume answers, what it leaves open, and when an engine looks for answers the last time."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.engine.plans import plan_of, stage, started

from agentforge.adapters.host.machine import SystemClock
from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.app.runs.resume import record_resume
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.layout import RunLayout
from agentforge.model.request import RequestKind
from agentforge.model.status import RunStatus
from agentforge.runtime.answers import Answer, give_answer
from agentforge.runtime.driver import Driver, Performers
from agentforge.runtime.journal import Journal
from agentforge.runtime.state_folder import HeadKeeper
from agentforge.system.disk import Disk

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
    record_resume(journal, layout, f.SessionResumed("ada"))
    (request,) = journal.state.requests
    assert request.is_open is not answered
    assert request.answer == ("resume" if answered else None)
    journal.close()


def test_a_resume_leaves_an_answer_that_was_given_first(tmp_path: Path) -> None:
    layout = RunLayout.of(str(tmp_path), "s")
    journal = Journal("s", JsonlLog(layout.log).open(), SystemClock())
    journal.record(started(plan_of(stage())), Cursor("0", 0, 0))
    for id in ("r-1", "r-2"):
        journal.record(f.RequestOpened(id, "escalation", id, "why", "May it?", ("resume", "retry")), AT)
    journal.record(f.SessionPaused("why", ("r-1", "r-2")), AT)
    state = journal.state
    first = Answer("r-1", "retry", "bob", state.run_id, state.updated_at)
    assert give_answer(layout, first) is None
    record_resume(journal, layout, f.SessionResumed("ada"))
    said = [(request.id, request.answer, request.answered_by) for request in journal.state.requests]
    assert said == [("r-1", "retry", "bob"), ("r-2", "resume", "ada")]
    journal.close()


@pytest.mark.parametrize("option", ["record", "approve"])
@pytest.mark.parametrize("is_crashed", [False, True])
def test_what_a_resume_asks_for_counts_after_a_crash_too(
    tmp_path: Path, option: str, is_crashed: bool
) -> None:
    layout = RunLayout.of(str(tmp_path), "s")
    journal = Journal("s", JsonlLog(layout.log).open(), SystemClock())
    journal.record(started(plan_of(stage())), Cursor("0", 0, 0))
    if not is_crashed:
        journal.record(f.SessionPaused("lunch"), AT)
    record_resume(journal, layout, f.SessionResumed("ada", "be brief", **{option: True}))
    assert getattr(journal.state.settings, option)
    assert journal.state.note_texts == ("be brief",)
    journal.close()


class BusyDisk(Disk):
    """A person answers before the pause is written: their process sees a run that an engine drives."""

    def __init__(self, answer: Callable[[], None]) -> None:
        self._answer = answer

    def write(self, fd: int, data: bytes) -> int:
        if b"session_paused" in data:
            self._answer()
        return super().write(fd, data)


def test_answer_to_a_run_whose_pause_is_not_written_yet_is_applied(tmp_path: Path) -> None:
    layout = RunLayout.of(str(tmp_path), "s")

    def answer() -> None:
        state = journal.state
        give_answer(layout, Answer("r-1", "cancel", "ada", state.run_id, state.updated_at))

    log = JsonlLog(layout.log, disk=BusyDisk(answer))
    journal = Journal("s", log.open(), SystemClock())
    journal.record(started(plan_of(stage())), Cursor("0", 0, 0))
    journal.record(f.RequestOpened("r-1", "escalation", "r-1", "why", "May it?", ("resume", "cancel")), AT)
    journal.record(f.SessionPaused("why", ("r-1",)), AT)
    driver = Driver(journal, layout, Performers({}, {}), keeper=HeadKeeper(layout.root, {}))
    state = asyncio.run(driver.drive())
    journal.close()
    assert state.status is RunStatus.ABORTED
