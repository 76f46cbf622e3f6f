"""What notifications say."""

from datetime import timedelta

import pytest
from tests.engine.plans import NOON, RUN_ID, SESSION, plan_of, stage, started

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Mode
from agentforge.views.notice import Notice, notice_of, notification_key
from agentforge.views.run_model import fold_events

ASKED = f.RequestOpened("r1", "escalation", "k", "lost", "Again?\x1b[2J", ("retry", "cancel"))


def noticed(*facts: f.AnyFact, mode: Mode = "pipeline") -> Notice | None:
    """Of the last of the facts."""
    plan = plan_of(stage("tidy"), mode=mode)
    events = [
        Event(number, NOON + timedelta(seconds=number), SESSION, RUN_ID, fact)
        for number, fact in enumerate((started(plan), *facts), 1)
    ]
    model = fold_events(iter(events))
    assert model.plan is not None
    assert model.state is not None
    return notice_of(events[-1], model.plan, model.state)


def test_request_is_quoted_without_control_characters_and_with_its_command() -> None:
    notice = noticed(ASKED)
    assert notice is not None
    assert notice == Notice(
        SESSION,
        "request",
        "AgentForge",
        "refine auth: needs an answer: Again?\ufffd[2J",
        notification_key(RUN_ID, 2),
        RUN_ID,
        "r1",
        "agentforge answer auth retry",
    )


def test_command_names_the_request_if_there_are_several() -> None:
    other = f.RequestOpened("r2", "question", "k2", "ask", "Which?", ())
    notice = noticed(ASKED, other)
    assert notice is not None
    assert notice.command == "agentforge answer --request r2 auth TEXT"


@pytest.mark.parametrize(
    ("fact", "mode", "title", "text"),
    [
        (f.SessionCompleted("all_loops_complete"), "pipeline", "AgentForge", "refine auth: complete"),
        (f.SessionCompleted("max_iterations"), "pipeline", "AgentForge", "refine auth: complete"),
        (f.SessionCompleted("max_iterations"), "loop", "Loop Agent", "tidy auth: max_iterations"),
        (f.SessionCompleted("Completed 3 iterations"), "loop", "Loop Agent", "tidy auth: complete"),
        (
            f.SessionFailed(FailureKind.PROVIDER_CRASHED, "exit 3", "tidy"),
            "loop",
            "Loop Agent",
            "tidy auth: failed: exit 3",
        ),
        (
            f.SessionAborted("hook h aborted"),
            "pipeline",
            "AgentForge",
            "refine auth: cancelled: hook h aborted",
        ),
        (f.SessionAborted(""), "loop", "Loop Agent", "tidy auth: cancelled"),
    ],
)
def test_end_names_what_ran_and_how_it_ended(fact: f.AnyFact, mode: Mode, title: str, text: str) -> None:
    notice = noticed(fact, mode=mode)
    assert notice is not None
    assert (notice.title, notice.text, notice.request) == (title, text, "")


def test_other_events_are_not_an_occasion() -> None:
    assert noticed(f.SessionPaused("lunch")) is None


def test_key_tells_runs_and_events_apart() -> None:
    keys = {notification_key(run, seq) for run in ("a", "b") for seq in (1, 2)}
    assert len(keys) == 4
    assert notification_key("a", 1) in keys
