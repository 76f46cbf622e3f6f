"""Controls and answers as files: what a resume takes back, and which answers count."""

import json
from pathlib import Path

import pytest

from agentforge.model.layout import RunLayout
from agentforge.model.state import Request
from agentforge.runtime.controls import (
    Answer,
    Control,
    drop_control,
    drop_pauses,
    give_answer,
    given_answers,
    pending_controls,
    send_control,
)

PAUSE = Control("20260101-a", "pause", "lunch")
CANCEL = Control("20260101-b", "cancel", "enough")


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    (tmp_path / "runs" / "s").mkdir(parents=True)
    return RunLayout(str(tmp_path / "runs" / "s"), "s")


def request(id: str, *options: str) -> Request:
    fields = {"id": id, "kind": "approval", "key": id, "reason": "approval", "question": "?"}
    return Request(**fields, options=options, opened_at=None)  # type: ignore[arg-type]


def test_a_resume_takes_pauses_back_and_no_cancel(layout: RunLayout) -> None:
    send_control(layout, PAUSE)
    send_control(layout, CANCEL)
    assert pending_controls(layout) == [PAUSE, CANCEL]
    drop_pauses(layout)
    assert pending_controls(layout) == [CANCEL]
    drop_control(layout, CANCEL)
    assert pending_controls(layout) == []


def test_the_first_answer_stands(layout: RunLayout) -> None:
    first, second = Answer("r", "yes", "ada"), Answer("r", "no", "bob")
    assert give_answer(layout, first) == first
    assert give_answer(layout, second) == first


@pytest.mark.parametrize(
    "given",
    [
        {"request": "r", "answer": "perhaps", "by": "ada"},
        {"request": "other", "answer": "yes", "by": "ada"},
        {"answer": "yes"},
        "yes",
    ],
)
def test_an_answer_that_makes_no_sense_is_put_aside(layout: RunLayout, given: object) -> None:
    folder = Path(layout.answers)
    folder.mkdir()
    (folder / "r.json").write_text(json.dumps(given))
    asked = request("r", "yes", "no")
    assert list(given_answers(layout, [asked])) == []
    assert [path.name for path in folder.iterdir()] == ["r.json.refused"]
    answer = give_answer(layout, Answer("r", "yes", "ada"))
    assert list(given_answers(layout, [asked])) == [(asked, answer)]
