"""Two controllers of one pipeline, whatever they are asked, in any order."""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Literal, get_args

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.stages import STAGES, TYPE, controller

from agentforge import Runs
from agentforge.core.pipeline import PipelineController, PipelineState, PipelineStatus
from agentforge.model import facts

Call = Literal["approve", "feedback", "resume", "abort", "status"]
FINAL = (PipelineStatus.COMPLETED, PipelineStatus.ABORTED)


def called(made: PipelineController, id: str, call: Call) -> bool:
    match call:
        case "approve":
            return made.approve(id)
        case "feedback":
            return made.provide_feedback(id, "again")
        case "resume":
            return made.execute(resume_pipeline_id=id).success
        case "abort":
            return made.abort(id)
        case "status":
            return made.get_status(id) is not None


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(get_args(Call))), max_size=9))
def test_answers_count_once_and_the_log_agrees_with_the_state(calls: list[tuple[bool, Call]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        one, other = controller(project, supervised=True), controller(project, supervised=True)
        id = one.execute("do it", TYPE).pipeline_id
        counted = Counter[Call]()
        for is_other, call in calls:
            before = one.get_status(id)
            counted[call] += called(other if is_other else one, id, call)
            after = other.get_status(id)
            assert before is not None
            assert after is not None
            if before.status in FINAL:
                assert (after.status, after.error) == (before.status, before.error)
            assert after.completed_stages == list(STAGES)[: len(after.completed_stages)]
            assert len(after.completed_stages) >= len(before.completed_stages)
        answers = Counter(
            event.fact.answer
            for event in Runs(project).events(id)
            if isinstance(event.fact, facts.RequestAnswered)
        )
        assert answers["approve"] == counted["approve"] == len(after_of(one, id).approved_stages)
        assert counted["abort"] == (after_of(one, id).status is PipelineStatus.ABORTED)


def after_of(made: PipelineController, id: str) -> PipelineState:
    state = made.get_status(id)
    assert state is not None
    return state
