"""What the records say about themselves."""

import pytest
from tests.engine.plans import block, event, plan_of, stage, started

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.codec import encode_fact
from agentforge.model.cursor import Cursor
from agentforge.model.facts import IterationCompleted
from agentforge.model.place import place_of
from agentforge.model.result import Decision, Result
from agentforge.model.state import MAX_NOTES_BYTES, Note, StageState, latest_notes


def completed(output: str | None, text: str | None) -> IterationCompleted:
    result = ("plan", 1, Decision.CONTINUE, "", "/runs/001/result.json", Result(), 5)
    return IterationCompleted(*result, output=output, text=text)


def test_output_file_is_known_before_it_is_written() -> None:
    assert completed("/runs/001/output.md", None).output_file == "/runs/001/output.md"
    assert completed(None, "it said this").output_file == "/runs/001/output.md"
    assert completed(None, None).output_file is None


def test_latest_notes_that_fit_are_kept() -> None:
    long = Note("x" * (MAX_NOTES_BYTES - 3), "person")
    short = Note("äb", "person")
    assert latest_notes((long, short)) == (long, short)
    assert latest_notes((short, long, short)) == (long, short)
    assert latest_notes((Note("x" * (MAX_NOTES_BYTES + 1), "person"),)) == ()


def test_stage_of_a_branch_has_no_place_outside_its_block() -> None:
    plan = plan_of(block("claude", stage("draft")))
    state = evolve(None, event(1, started(plan), Cursor("0", 0, 0)))
    assert place_of(plan, state, "claude", StageState("0.0", 1)) is None
    assert place_of(plan, state, None, StageState("7", 1)) is None


@pytest.mark.parametrize(
    ("fact", "field"),
    [
        (f.IterationStarted("s", "s", "claude", "opus", ""), b'"attempt":1'),
        (f.NodeStarted("s"), b'"runs":1'),
        (f.NodeCompleted("s", "done", 1), b'"status":"completed"'),
        (f.ProviderCompleted("claude"), b'"status":"completed"'),
    ],
    ids=["iteration_start", "node_start", "node_complete", "parallel_provider_complete"],
)
def test_specified_fields_are_written_even_if_they_have_their_default(fact: f.AnyFact, field: bytes) -> None:
    assert field in encode_fact(fact)
