"""Copies of the source in which one sync is dropped or too late: the order rules detect it in real runs."""

import sys
from pathlib import Path

import pytest
from tests.mutants.bugs import ALL
from tests.mutants.mutation import Mutation
from tests.sampling import one_in

from .recorded import judged, recorded

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

NOTICED = {
    "an intent isn't synced before its act": ("stage", "the intent of"),
    "what a performer reports isn't durable before it goes on": ("checked", "check_prepared of"),
    "a control is dropped before its record is durable": ("cancel", "removed before its record is synced"),
    "a control's content isn't durable": ("cancel", "visible before its content is synced"),
    "a control's name isn't durable": ("cancel", "isn't synced by now"),
    "the name of the folder of the first control isn't durable": (
        "cancel",
        "the folder control isn't synced",
    ),
    "the proof of a run isn't durable before its first event": ("stage", "the proof that the run"),
    "the name of the folder of proofs isn't durable": ("stage", "the folder runs of the proof"),
    "a claim's content isn't durable": ("stage", "visible before its content is synced"),
    "a claim's name isn't durable": ("stage", "before its claim's name is synced"),
    "a claim is visible before it names its owner": ("stage", "visible before its content is synced"),
    "an exit record's content isn't durable": ("stage", "the exit record is visible"),
    "an exit record's name isn't durable": ("stage", "isn't synced by now"),
    "output isn't synced before the exit record": ("stage", "before output.log is synced"),
    "errors that are kept apart aren't synced": ("script", "before errors.log is synced"),
    "the write-ahead file isn't synced": ("retry", "the intent of"),
    "the name of the write-ahead file isn't synced": ("retry", "the intent of"),
    "a full write-ahead file is overwritten before the log is synced": (
        "block",
        "part of the log",
    ),
    "the write-ahead file is removed before the log is synced": ("plain", "bytes of the log are synced"),
    "the files of a block are ahead of the log when it ends": ("block", "more than are synced"),
    "requests are shown before they are durable": ("shown", "more requests than are synced"),
    "a payload isn't synced before the line that names it": ("large", "its payload"),
    "a large artifact isn't synced before the event that names it": ("items", "its artifact"),
    "the name of a large artifact isn't durable": ("items", "its artifact"),
    "the name of a new log isn't synced": ("stage", "the log's own name isn't synced"),
}


def bug(words: str) -> Mutation:
    return next(known for known in ALL if known.bug == words)


@pytest.mark.parametrize("words", one_in(9, NOTICED))
def test_it_is_noticed_that(words: str, tmp_path: Path) -> None:
    scenario, error = NOTICED[words]
    run = recorded(tmp_path / "run", scenario, bug(words).apply(tmp_path))
    assert any(error in told for told in judged(run))


def test_it_is_noticed_that_the_tree_before_an_attempt_is_not_synced(tmp_path: Path) -> None:
    source = bug("what a performer reports isn't durable before it goes on").apply(tmp_path)
    assert any("tree_taken of" in told for told in judged(recorded(tmp_path / "run", "tracked", source)))


AHEAD = {
    "state.json is ahead of the log": ("retry", "bytes of the log, of which"),
    "the view of a branch is ahead of the log": ("block", "more than are synced"),
}


@pytest.mark.parametrize("words", one_in(2, AHEAD))
def test_it_is_noticed_that_a_view_is_ahead(words: str, tmp_path: Path) -> None:
    source, (scenario, error) = bug(words).apply(tmp_path), AHEAD[words]
    writer = source / "agentforge/runtime/view_files.py"
    # At every step, and not when some time has passed, which is another moment on every machine.
    often = writer.read_text().replace("SECONDS_BETWEEN = 1.0", "SECONDS_BETWEEN = 0.0")
    assert often != writer.read_text()
    writer.write_text(often)
    assert any(error in told for told in judged(recorded(tmp_path / "run", scenario, source)))


def test_it_is_noticed_that_the_intent_of_a_webhook_is_not_synced(tmp_path: Path) -> None:
    source = bug("an intent isn't synced before its act").apply(tmp_path)
    found = judged(recorded(tmp_path / "run", "webhook-asks", source))
    assert any("the intended effect" in told for told in found)
    assert any("the intent to call its hook" in told for told in found)
