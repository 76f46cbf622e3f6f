"""The row of every task: of a kind whose file of rows says nothing else."""

import pytest
from tests.views.samples import event

from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.views.lines.row import task_row


class Cleaning(f.TaskFact, frozen=True):
    KIND = "clean"

    attempt: int = 1


class Began(Cleaning, f.TaskStarted, frozen=True):
    TYPE = "clean_start"


class Stopping(Cleaning, f.TaskEnding, frozen=True):
    TYPE = "clean_ending"

    reason: str = "lunch"


class Cleaned(Cleaning, f.TaskOutcome, frozen=True):
    TYPE = "clean_complete"

    why: Failure | None = None

    @property
    def failure(self) -> Failure | None:
        return self.why


class Vanished(Cleaning, f.TaskLost, frozen=True):
    TYPE = "clean_lost"


class Noted(Cleaning, frozen=True):
    TYPE = "clean_noted"


@pytest.mark.parametrize(
    ("fact", "words", "mark", "details"),
    [
        (Began(), "running clean", "begin", {}),
        (Stopping(), "stopping clean: lunch", "wait", {"reason": '"lunch"'}),
        (Vanished(2), "lost clean (try 2)", "wait", {}),
        (Cleaned(), "completed clean", "done", {"status": "succeeded", "error": ""}),
        (
            Cleaned(1, Failure(FailureKind.AGENT_ERROR, "no\nspace")),
            "clean failed: no space",
            "failed",
            {"status": "failed", "error": '"no space"'},
        ),
    ],
)
def test_its_start_its_end_and_its_loss_are_shown(
    fact: f.TaskFact, words: str, mark: str, details: dict[str, str]
) -> None:
    row = task_row(type(fact))
    assert row is not None
    assert callable(row.line)
    line = row.line(fact, event(f.TimerFired("delay")))
    assert line is not None
    assert (line.text, line.mark) == (words, mark)
    assert row.details(fact) == {"clean": "", "attempt": fact.attempt, **details}


def test_what_is_said_only_of_one_kind_has_a_row_of_its_own() -> None:
    assert task_row(Noted) is None
