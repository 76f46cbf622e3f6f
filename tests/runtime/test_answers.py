"""Which files answer a request, and what the owner of the run records of them."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, RUN_ID, plan_of, stage, started

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import InvalidRequest
from agentforge.model.layout import RunLayout
from agentforge.model.request import ACCEPT, RETRY
from agentforge.model.secrets import SecretReferences
from agentforge.runtime.answers import (
    MAX_TEXT_BYTES,
    Answer,
    give_answer,
    has_invalid_answer,
    hidden,
    offered,
    record_answers,
    record_due,
    take_answers,
)
from agentforge.runtime.journal import Journal
from agentforge.testing import FakeClock
from agentforge.testing.memory_log import MemoryLog

HERE = Cursor("0", 1, 0)
NOTHING = SecretReferences({})
ID = "approval-1-3"
GIVEN = Answer(ID, "yes", "me", RUN_ID, NOON)


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(str(tmp_path / "run"), "s")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def journal(clock: FakeClock) -> Iterator[Journal]:
    journal = Journal("auth", MemoryLog().open(), clock)
    journal.record(started(plan_of(stage())), Cursor("0", 0, 0))
    journal.record(f.NodeStarted("plan", "0", 1, "stage-00-plan"), HERE)
    yield journal
    journal.close()


def asks(journal: Journal, kind: Any = "approval", id: str = ID, **more: Any) -> None:
    journal.record(f.RequestOpened(id, kind, id, kind, "May it?", ("yes", "no"), **more), HERE)


def last_place(journal: Journal) -> Cursor | None:
    return journal.state.cursor


def refused(journal: Journal) -> dict[str, str]:
    return {known.name: known.reason for known in journal.state.refused}


def test_answer_is_recorded_where_it_was_asked(journal: Journal, layout: RunLayout) -> None:
    asks(journal)
    journal.record(f.NoteAdded("later", "me"), Cursor("0", 1, 4))
    assert give_answer(layout, GIVEN) is None
    assert give_answer(layout, replace(GIVEN, answer="no")) == GIVEN
    assert record_answers(journal, layout, NOTHING)
    assert last_place(journal) == HERE
    assert journal.state.requests[0].answer == "yes"


def test_request_takes_its_default_at_its_time_and_not_before(
    journal: Journal, layout: RunLayout, clock: FakeClock
) -> None:
    asks(journal, due_at=NOON + timedelta(seconds=60), default="no")
    clock.advance(59)
    record_due(journal, layout, NOTHING)
    assert journal.state.requests[0].is_open
    clock.advance(1)
    record_due(journal, layout, NOTHING)
    known = journal.state.requests[0]
    assert (known.answer, known.answered_by, last_place(journal)) == ("no", "default", HERE)


@pytest.mark.parametrize("size", [MAX_TEXT_BYTES, MAX_TEXT_BYTES + 1])
def test_answer_has_a_largest_size(journal: Journal, layout: RunLayout, size: int) -> None:
    asks(journal)
    text = "x" * (size - len("me") - len("yes"))
    give_answer(layout, replace(GIVEN, text=text))
    is_long = size > MAX_TEXT_BYTES
    assert has_invalid_answer(layout, RUN_ID, journal.state.requests[0]) is is_long
    assert bool(take_answers(journal, layout, journal.state.requests)) is not is_long


def test_files_that_answer_nothing_are_refused_and_earlier_answers_stay(
    journal: Journal, layout: RunLayout
) -> None:
    asks(journal)
    for name in (
        "a.first",
        "approval-1",
        f"question-x-{journal.state.seq}",
        "approval-44",
        "approval",
        "q-²",
    ):
        give_answer(layout, replace(GIVEN, request=name))
    Path(layout.answers, "a.txt").touch()
    assert take_answers(journal, layout, journal.state.requests) == []
    names = ("a.first", "approval-44", "approval", "q-²")
    assert refused(journal) == {f"answers/{name}.json": "the run has no such request" for name in names}


def test_result_is_accepted_with_a_reason_only(journal: Journal, layout: RunLayout) -> None:
    options = (ACCEPT, RETRY)
    journal.record(f.RequestOpened(ID, "escalation", ID, "verdict", "?", options), HERE)
    (request,) = journal.state.requests
    for answer, text, is_invalid in ((ACCEPT, " ", True), (ACCEPT, "fine", False), (RETRY, "", False)):
        Path(layout.answers, f"{ID}.json").unlink(missing_ok=True)
        give_answer(layout, replace(GIVEN, answer=answer, text=text))
        assert has_invalid_answer(layout, RUN_ID, request) is is_invalid
    assert offered(request) == "accept, retry"
    assert offered(replace(request, grants="rounds")) == (
        "accept, retry, or a number of rounds such as 5, at most 1,000,000"
    )
    assert offered(replace(request, grants="cost_usd")) == (
        "accept, retry, or a number of US dollars such as 0.50, at most 1,000,000"
    )


def test_secrets_of_an_answer_are_handed_over_as_references() -> None:
    secrets = SecretReferences({"KEY": "hunter2", "OTHER": "hunter3"})
    given = hidden(replace(GIVEN, answer="hunter2", text="say hunter3"), secrets)
    assert (given.answer, given.text) == ("${secret:KEY}", "say ${secret:OTHER}")
    assert secrets.proven(given.secrets, given.signed) == ("KEY", "OTHER")


def test_answer_that_cannot_be_read_is_to_be_given_again(layout: RunLayout) -> None:
    Path(layout.answers).mkdir(parents=True)
    Path(layout.answers, f"{ID}.json").write_text("{")
    with pytest.raises(InvalidRequest, match="can't be read") as error:
        give_answer(layout, GIVEN)
    assert error.value.hint == "retry"
