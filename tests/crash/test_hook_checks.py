"""The judge of the hooks of crash runs can say no: each thing that must hold is broken once, by hand."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .case import Case, play
from .hook_checks import hook_violations
from .story import Story

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

Lines = list[dict]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Story:
    case = Case.parse("webhook-asks engine:answer:1:after:engine")
    return play(tmp_path_factory.mktemp("crash") / "run", case).story


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return play(tmp_path_factory.mktemp("crash") / "run", Case("script", ())).story


@pytest.fixture
def report(finished: Story, scripted: Story) -> Iterator[Callable[..., str]]:
    kept: dict[Path, bytes] = {}

    def of(file: str, change: Callable[[Lines], Lines], story: Story = finished) -> str:
        path = getattr(story, file)
        kept[path] = path.read_bytes()
        changed = change([json.loads(line) for line in kept[path].splitlines()])
        path.write_text("".join(json.dumps(line) + "\n" for line in changed))
        return "\n".join(hook_violations(story))

    yield of
    for path, content in kept.items():
        path.write_bytes(content)


def without(*types: str, last: bool = False) -> Callable[[Lines], Lines]:
    """Without the first or the last event of these types."""

    def change(lines: Lines) -> Lines:
        found = [line for line in lines if line["type"] in types]
        return [line for line in lines if line is not found[-1 if last else 0]]

    return change


def again(kind: str, seq: int | None = None, **data: object) -> Callable[[Lines], Lines]:
    """With an event like the first of its type, at the end or after the event of a number."""

    def change(lines: Lines) -> Lines:
        like = next(line for line in lines if line["type"] == kind)
        added = {**like, "data": {**like["data"], **data}}
        return [*lines[:seq], added, *(lines[seq:] if seq else [])]

    return change


BROKEN = {
    "a try without an outcome": (without("hook_complete"), "has no outcome"),
    "a call without an answer": (without("hook_complete", last=True), "has no answer"),
    "a second answer": (again("hook_complete"), "hook_complete of a try that isn't open"),
    "a call after its answer": (again("hook_start", attempt=3), "called again, and its answer is recorded"),
    "a number given twice": (again("hook_start"), "try 1 of"),
    "no intent of the effect": (without("effect_intended"), "intended effects"),
    "an effect that stays open": (without("effect_done"), "closed effects"),
    "an effect that is closed twice": (again("effect_done"), "closed effects"),
    "a repeat without a question": (without("request_opened"), "and nobody was asked"),
    "a question without a loss": (without("hook_lost"), "asks about a hook that isn't lost"),
    "an iteration before its hooks": (again("attempt_start", seq=4), "attempt_start while"),
}


def test_an_untouched_run_is_found_good(report, scripted: Story) -> None:
    assert report("log", lambda lines: lines) == ""
    assert report("log", lambda lines: lines, scripted) == ""


@pytest.mark.parametrize(("change", "words"), BROKEN.values(), ids=BROKEN)
def test_the_log_is_watched(report, change: Callable[[Lines], Lines], words: str) -> None:
    assert words in report("log", change)


def test_a_loss_that_counts_as_a_failure_is_noticed(report) -> None:
    def failing(lines: Lines) -> Lines:
        return [{**line, "type": "hook_failed"} if line["type"] == "hook_lost" else line for line in lines]

    assert "has hook_failed, and nobody refused it" in report("log", failing)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda got: [*got, got[-1]], "arrived 2 times"),
        (lambda got: got[:-1], "is answered, and it never arrived"),
        (lambda got: [{**got[0], "intended": False}, *got[1:]], "arrived without an intent"),
        (lambda got: [*got[:-1], {**got[-1], "answered": True}], "after its answer was recorded"),
        (lambda got: [got[0], {**got[1], "key": "other"}, *got[2:]], "keys and places don't match"),
        (lambda got: [got[0], {**got[1], "iteration": 2}, *got[2:]], "keys and places don't match"),
        (lambda got: [{**got[0], "delivery": "other"}, *got[1:]], "says that it is other"),
    ],
    ids=["twice", "never", "not intended", "late", "another key", "another place", "another delivery"],
)
def test_the_service_is_watched(report, change: Callable[[Lines], Lines], words: str) -> None:
    assert words in report("deliveries", change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda notes: [*notes, notes[-1]], "end 2 times"),
        (lambda notes: notes[:-1], "is answered and didn't run to its end"),
        (lambda notes: [*notes, {**notes[-1], "attempt": "hook/other/1"}], "ran and isn't in the log"),
    ],
    ids=["twice", "not to its end", "unknown"],
)
def test_scripts_are_watched(report, scripted: Story, change: Callable[[Lines], Lines], words: str) -> None:
    assert words in report("ledger", change, scripted)


@pytest.mark.parametrize(
    ("kind", "words"), [("hook_lost", "nothing was killed"), ("hook_failed", "left alone")]
)
def test_a_script_that_was_left_alone_is_not_lost(report, scripted: Story, kind: str, words: str) -> None:
    def changed(lines: Lines) -> Lines:
        return [{**line, "type": kind} if line["type"] == "hook_complete" else line for line in lines]

    assert words in report("log", changed, scripted)
