"""Controls and answers as files: what a resume takes back, and which answers count."""

import asyncio
import os
import resource
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, RUN_ID, plan_of, stage, started
from tests.privileges import permissions_count

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import StorageFailed
from agentforge.model.layout import RunLayout
from agentforge.model.request import TIMER, Request
from agentforge.model.secrets import NO_SECRETS, SecretReferences
from agentforge.model.state import MAX_REFUSED, RefusedFile
from agentforge.runtime.answers import (
    MAX_TEXT_BYTES,
    Answer,
    give_answer,
    given_answers,
    has_invalid_answer,
    record_answers,
    record_due,
    take_answers,
)
from agentforge.runtime.controls import Control, drop_control, drop_pauses, pending_controls, send_control
from agentforge.runtime.driver import Driver, Performers
from agentforge.runtime.journal import Journal
from agentforge.runtime.left_files import MAX_FILE_BYTES, Refusals
from agentforge.runtime.state_folder import HeadKeeper
from agentforge.testing import FakeClock
from agentforge.testing.memory_log import MemoryLog

PAUSE = Control("pause", "lunch", id="20260101-a")
CANCEL = Control("cancel", "enough", id="20260101-b")


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    (tmp_path / "runs" / "s").mkdir(parents=True)
    return RunLayout(str(tmp_path / "runs" / "s"), "s")


@pytest.fixture
def journal() -> Iterator[Journal]:
    journal = Journal("s", MemoryLog().open(), FakeClock())
    journal.record(started(plan_of(stage())), Cursor("0", 0, 0))
    yield journal
    journal.close()


def drained(layout: RunLayout, journal: Journal) -> list[Control]:
    """The controls, as the owner of the run reads them."""
    refusals = Refusals(journal, layout)
    controls = pending_controls(layout, refusals.add)
    refusals.settle()
    return controls


def request(id: str, *options: str) -> Request:
    fields = {"id": id, "kind": "approval", "key": id, "reason": "approval", "question": "?"}
    return Request(**fields, options=options, opened_at=NOON)  # type: ignore[arg-type]


def test_a_resume_takes_pauses_back_and_no_cancel(layout: RunLayout) -> None:
    send_control(layout, PAUSE)
    send_control(layout, CANCEL)
    assert pending_controls(layout) == [PAUSE, CANCEL]
    drop_pauses(layout)
    assert pending_controls(layout) == [CANCEL]
    drop_control(layout, CANCEL)
    assert pending_controls(layout) == []


def answer(text: str = "yes", **changes: Any) -> Answer:
    return replace(Answer("r", text, "ada", RUN_ID, NOON), **changes)


def test_a_resume_takes_no_steering_and_no_restart_back(layout: RunLayout) -> None:
    kept = [Control("steer", "faster", id="20260101-c"), Control("restart", "again", id="20260101-d")]
    for control in (PAUSE, *kept):
        send_control(layout, control)
    drop_pauses(layout)
    assert pending_controls(layout) == kept


@pytest.mark.parametrize("is_recorded", [False, True])
def test_control_that_a_crash_left_after_it_was_recorded_counts_once(
    layout: RunLayout, journal: Journal, is_recorded: bool
) -> None:
    note = Control("steer", "faster", id="20260101-c")
    send_control(layout, note)
    if is_recorded:
        journal.record(note.fact(NO_SECRETS), Cursor("0", 0, 0))
    send_control(layout, CANCEL)
    asyncio.run(Driver(journal, layout, Performers({}, {}), keeper=HeadKeeper(layout.root, {})).drive())
    assert [known.text for known in journal.state.notes] == ["faster"]
    assert pending_controls(layout) == []


def test_the_first_answer_counts(layout: RunLayout) -> None:
    first = answer()
    assert give_answer(layout, first) is None
    assert give_answer(layout, answer("no", by="bob")) == first
    assert give_answer(layout, first) == first, "the second answer is refused"
    assert os.listdir(layout.answers) == ["r.json"]


INVALID = {
    "not offered": (answer("perhaps"), "it is not an answer to request 'r', which accepts: yes, no"),
    "of another request": (answer(request="other"), "it answers request 'other', not 'r'"),
    "of another run": (answer(run="r2"), "it answers a request of another run"),
    "empty": (answer("  "), "it is empty"),
    "too long": (answer(text="é" * (MAX_TEXT_BYTES // 2)), f"its text is longer than {MAX_TEXT_BYTES} bytes"),
    "too early": (
        answer(at=NOON - timedelta(microseconds=1)),
        "it was given before request 'r' was asked",
    ),
    "without a run": ({"request": "r", "answer": "yes", "by": "ada", "at": NOON}, "it is not an answer"),
    "without a time zone": (
        {"request": "r", "answer": "yes", "by": "ada", "run": RUN_ID, "at": "2026-01-15T12:00:00"},
        "it is not an answer",
    ),
    "no object": ("yes", "it is not an answer"),
}


@pytest.mark.parametrize(("given", "reason"), INVALID.values(), ids=INVALID)
def test_an_answer_that_makes_no_sense_is_renamed(
    layout: RunLayout, journal: Journal, given: object, reason: str
) -> None:
    folder = Path(layout.answers)
    folder.mkdir()
    (folder / "r.json").write_bytes(msgspec.json.encode(given))
    asked = request("r", "yes", "no")
    assert list(given_answers(layout, RUN_ID, [asked])) == []
    assert has_invalid_answer(layout, RUN_ID, asked)
    assert take_answers(journal, layout, [asked]) == []
    assert journal.state.refused == (RefusedFile("answers/r.json", reason, "r.json.refused"),)
    assert [path.name for path in folder.iterdir()] == ["r.json.refused"]
    assert not has_invalid_answer(layout, RUN_ID, asked)
    assert give_answer(layout, answer()) is None
    assert list(given_answers(layout, RUN_ID, [asked])) == [(asked, answer())]


@pytest.mark.parametrize(
    ("changes", "given"),
    [
        ({"kind": "question", "options": ()}, "any text"),
        ({"kind": "escalation", "options": ("resume",), "grants": "rounds"}, "3"),
    ],
)
def test_an_answer_that_is_not_an_option_counts_where_the_request_accepts_it(
    layout: RunLayout, changes: dict[str, Any], given: str
) -> None:
    asked = replace(request("r", "yes"), **changes)
    assert give_answer(layout, answer(given)) is None
    assert list(given_answers(layout, RUN_ID, [asked])) == [(asked, answer(given))]


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
    "too large": _holding(GIVEN + b" " * MAX_FILE_BYTES),
    "folder": _folder,
    "FIFO": os.mkfifo,
    "link": _link,
    "link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_odd_control_is_moved_aside_and_reported_once(
    layout: RunLayout, journal: Journal, make: Callable[[Path], None]
) -> None:
    send_control(layout, PAUSE)
    make(Path(layout.control) / "20260101-0.json")
    assert pending_controls(layout) == [PAUSE]
    for _ in range(3):
        assert drained(layout, journal) == [PAUSE]
    file = RefusedFile("control/20260101-0.json", "it is not a valid control", "20260101-0.json.refused")
    assert journal.state.refused == (file,)
    assert sorted(os.listdir(layout.control)) == ["20260101-0.json.refused", "20260101-a.json"]
    drop_pauses(layout)
    assert pending_controls(layout) == []


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_odd_answer_is_moved_aside_and_another_can_be_given(
    layout: RunLayout, journal: Journal, make: Callable[[Path], None]
) -> None:
    Path(layout.answers).mkdir()
    make(Path(layout.answers) / "r.json")
    asked = request("r", "yes", "no")
    assert take_answers(journal, layout, [asked]) == []
    reported = RefusedFile("answers/r.json", "it is not an answer", "r.json.refused")
    assert journal.state.refused == (reported,)
    assert give_answer(layout, answer()) is None


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


@pytest.mark.parametrize("name", ["x" * 150, "a b", "é", "-x", "a\x1b[2Jb", os.fsdecode(b"\xff")])
def test_control_with_an_odd_name_is_moved_aside(layout: RunLayout, journal: Journal, name: str) -> None:
    Path(layout.control).mkdir()
    (Path(layout.control) / f"{name}.json").write_bytes(GIVEN)
    assert drained(layout, journal) == []
    assert os.listdir(layout.control) == [f"{name}.json.refused"]
    assert len(journal.state.refused) == 1


@pytest.mark.parametrize("letter", ["x", "é"])
def test_control_with_the_longest_possible_name_is_moved_aside(
    layout: RunLayout, journal: Journal, letter: str
) -> None:
    Path(layout.control).mkdir()
    (Path(layout.control) / f"{letter * (250 // len(letter.encode()))}.json").write_bytes(GIVEN)
    assert drained(layout, journal) == []
    (name,) = os.listdir(layout.control)
    assert name == f"{letter * (200 // len(letter.encode()))}.refused"


def test_flood_of_junk_is_refused_in_parts(layout: RunLayout, journal: Journal) -> None:
    send_control(layout, PAUSE)
    for number in range(2 * MAX_REFUSED + 1):
        (Path(layout.control) / f"junk-{number}.json").write_bytes(b"")
    for _ in range(3):
        assert len(list(Path(layout.control).glob("*.json"))) > 1
        assert drained(layout, journal) == [PAUSE]
    assert [path.name for path in Path(layout.control).glob("*.json")] == [f"{PAUSE.id}.json"]
    assert journal.state.seq == 1 + 2 * MAX_REFUSED + 1
    assert len(journal.state.refused) == MAX_REFUSED


def test_file_that_was_recorded_but_not_moved_is_moved_and_not_recorded_again(
    layout: RunLayout, journal: Journal
) -> None:
    """As after a crash in between."""
    Path(layout.control).mkdir()
    file = Path(layout.control) / "a.json"
    file.write_bytes(b"first")
    journal.record(f.FileRefused("control/a.json", "it is not a valid control", "a.json.refused"))
    assert drained(layout, journal) == []
    assert len(journal.state.refused) == 1
    assert os.listdir(layout.control) == ["a.json.refused"]
    file.write_bytes(b"second")
    assert drained(layout, journal) == []
    assert [known.moved_to for known in journal.state.refused] == ["a.json.refused", "a.json.refused-2"]


def test_unreadable_folder_of_controls_is_moved_aside(layout: RunLayout, journal: Journal) -> None:
    Path(layout.control).mkdir(mode=0)
    with permissions_count():
        assert drained(layout, journal) == []
    assert os.listdir(layout.root) == ["control.refused"]


def _dangling(path: Path) -> None:
    path.symlink_to("missing")


@pytest.mark.parametrize(
    "make", [_holding(b"x"), _link, os.mkfifo, _dangling], ids=["file", "link", "FIFO", "dangling link"]
)
def test_what_is_in_the_place_of_the_folders_is_moved_aside(
    layout: RunLayout, journal: Journal, make: Callable[[Path], None]
) -> None:
    make(Path(layout.control))
    make(Path(layout.answers)) if make is not _link else Path(layout.answers).symlink_to(layout.root)
    assert drained(layout, journal) == []
    assert take_answers(journal, layout, [request("r", "yes")]) == []
    assert [file.name for file in journal.state.refused] == ["control", "answers"]
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


def asked_in(journal: Journal, **changes: Any) -> None:
    opened = f.RequestOpened("r", "question", "r", "question", "?", ())
    journal.record(replace(opened, **changes), Cursor("0", 1, 1))


def test_secret_in_an_answer_that_another_program_left_is_not_recorded(
    layout: RunLayout, journal: Journal
) -> None:
    asked_in(journal)
    give_answer(layout, replace(answer("use hunter2"), text="as hunter2 says"))
    assert record_answers(journal, layout, SecretReferences({"KEY": "hunter2"}))
    (known,) = journal.state.requests
    assert (known.answer, known.text) == ("use ${secret:KEY}", "as ${secret:KEY} says")
    assert known.secrets == ("KEY",)


def test_answer_beside_a_log_that_ends_with_the_timeout_is_too_late(
    layout: RunLayout, journal: Journal
) -> None:
    asked_in(journal, options=("yes", "no"), due_at=NOON, default="no")
    journal.record(f.TimerFired(f"{TIMER}r"), journal.state.cursor)
    give_answer(layout, answer("yes"))
    assert not record_answers(journal, layout, NO_SECRETS)
    late = "request 'r' has timed out"
    assert journal.state.refused == (RefusedFile("answers/r.json", late, "r.json.refused"),)
    record_due(journal, layout, NO_SECRETS)
    (known,) = journal.state.requests
    assert (known.answer, known.answered_by) == ("no", "default")


def test_default_is_not_the_answer_before_its_time(layout: RunLayout, journal: Journal) -> None:
    asked_in(journal, options=("yes", "no"), due_at=NOON + timedelta(seconds=1), default="no")
    record_due(journal, layout, NO_SECRETS)
    assert journal.state.requests[0].is_open
