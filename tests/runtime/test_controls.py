"""Controls and answers as files: what a resume takes back, and which answers count."""

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.model.errors import StorageFailed
from agentforge.model.layout import RunLayout
from agentforge.model.state import Request
from agentforge.runtime.controls import (
    Answer,
    Control,
    answer_request,
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


GIVEN = b'{"action": "cancel", "reason": "enough"}'


def _folder(path: Path) -> None:
    (path / "inside").mkdir(parents=True)


def _link(path: Path) -> None:
    target = path.parent.parent.with_name("elsewhere.json")
    target.write_bytes(GIVEN)
    path.symlink_to(target)


def _holding(content: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)

    return write


ODD: dict[str, Callable[[Path], None]] = {
    "empty": _holding(b""),
    "no json": _holding(b"hello"),
    "not utf-8": _holding(b'{"action": "cancel", "reason": "\xff"}'),
    "another action": _holding(b'{"action": "reboot", "reason": "x"}'),
    "deep": _holding(b"[" * 60_000),
    "too large": _holding(GIVEN + b" " * 70_000),
    "folder": _folder,
    "FIFO": os.mkfifo,
    "link": _link,
    "link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_odd_control_is_moved_aside_and_reported_once(
    layout: RunLayout, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    send_control(layout, PAUSE)
    make(Path(layout.control) / "20260101-0.json")
    for _ in range(3):
        assert pending_controls(layout) == [PAUSE]
    assert caplog.text.count("it is not a control") == 1
    assert sorted(os.listdir(layout.control)) == ["20260101-0.json.refused", "20260101-a.json"]
    drop_pauses(layout)
    assert pending_controls(layout) == []


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_odd_answer_is_moved_aside_and_another_can_be_given(
    layout: RunLayout, make: Callable[[Path], None]
) -> None:
    Path(layout.answers).mkdir()
    make(Path(layout.answers) / "r.json")
    asked = request("r", "yes", "no")
    assert list(given_answers(layout, [asked])) == []
    assert answer_request(layout, asked, "yes", "ada") == Answer("r", "yes", "ada")


@pytest.mark.parametrize("id", ["../../../package", "", "/etc/passwd", "x" * 300, "a\\u0000b"])
def test_content_of_a_control_names_no_path(layout: RunLayout, id: str) -> None:
    """Only the name of the file is the id, whatever its content claims."""
    victim = Path(layout.root).parent.parent / "package.json"
    victim.write_text("{}")
    Path(layout.control).mkdir()
    content = f'{{"id": "{id}", "action": "pause", "reason": "x"}}'
    (Path(layout.control) / "one.json").write_text(content)
    (control,) = pending_controls(layout)
    assert control.id == "one"
    drop_control(layout, control)
    assert pending_controls(layout) == []
    assert victim.exists()


@pytest.mark.parametrize("name", ["x" * 150, "a b", "é", "-x"])
def test_control_with_an_odd_name_is_moved_aside(layout: RunLayout, name: str) -> None:
    Path(layout.control).mkdir()
    (Path(layout.control) / f"{name}.json").write_bytes(GIVEN)
    assert pending_controls(layout) == []
    assert os.listdir(layout.control) == [f"{name}.json.refused"]


@pytest.mark.parametrize("make", [_holding(b"x"), _link, os.mkfifo], ids=["file", "link", "FIFO"])
def test_what_is_in_the_place_of_the_folders_is_moved_aside(
    layout: RunLayout, make: Callable[[Path], None]
) -> None:
    make(Path(layout.control))
    make(Path(layout.answers)) if make is not _link else Path(layout.answers).symlink_to(layout.root)
    assert pending_controls(layout) == []
    assert list(given_answers(layout, [request("r", "yes")])) == []
    assert sorted(os.listdir(layout.root)) == ["answers.refused", "control.refused"]
    send_control(layout, PAUSE)
    assert pending_controls(layout) == [PAUSE]


def test_control_is_kept_if_the_engine_cannot_read_it_now(layout: RunLayout) -> None:
    send_control(layout, CANCEL)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    folder = os.open(layout.control, os.O_RDONLY)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (folder, limits[1]))
        with pytest.raises(StorageFailed):
            pending_controls(layout)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        os.close(folder)
    assert pending_controls(layout) == [CANCEL]
