"""An iteration's files: what a power cut took is written again, what agents wrote is theirs."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, plan_of, stage

from agentforge.model.facts import ErrorOccurred, IterationStarted
from agentforge.model.failure import FailureKind
from agentforge.model.layout import RunLayout
from agentforge.model.place import Place
from agentforge.model.plan import Items, Route
from agentforge.model.request import AnsweredQuestion, Feedback
from agentforge.model.task import AgentTask, PrepareTask
from agentforge.runtime.tasks.call import TaskContext
from agentforge.runtime.tasks.prepare import Prepared, Preparer
from agentforge.views.history import History

PLAN = plan_of(stage(prompt="do ${ITERATION}", runs=2))
NODE = PLAN.steps[0].stages[0]
PLACE = Place("0", 1, "stage-00-plan")


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(str(tmp_path / "run"), "s")


def preparer(tmp_path: Path, layout: RunLayout) -> Preparer:
    return Preparer(TaskContext(str(tmp_path), layout, PLAN, "r", {}), History())


def prepare(made: Preparer, number: int = 1) -> IterationStarted:
    fact = made.do(PrepareTask(PLACE, "plan", number, node=NODE))
    assert isinstance(fact, IterationStarted)
    return fact


def attempt(fact: IterationStarted, number: int = 1) -> AgentTask:
    return AgentTask(
        *(PLACE, "plan", 1, number),
        node=NODE,
        by=NODE.provider,
        started_at=NOON,
        prompt_sha256=fact.prompt_sha256,
    )


@pytest.mark.parametrize("name", ["prompt.md", "context.json"])
@pytest.mark.parametrize("left", [None, b"", b"do"])
def test_what_a_power_cut_took_of_it_is_written_again(
    tmp_path: Path, layout: RunLayout, name: str, left: bytes | None
) -> None:
    fact = prepare(preparer(tmp_path, layout))
    here = Path(layout.iteration(PLACE.folder, 1).root)
    before = (here / name).read_bytes()
    if left is None:
        (here / name).unlink()
    elif name == "prompt.md":
        (here / name).write_bytes(left)
    assert isinstance(preparer(tmp_path, layout).prepared(attempt(fact)), Prepared)
    assert (here / name).read_bytes() == before
    assert sha256((here / "prompt.md").read_bytes()).hexdigest() == fact.prompt_sha256


def test_a_progress_file_is_begun_once(tmp_path: Path, layout: RunLayout) -> None:
    prepare(preparer(tmp_path, layout))
    progress = Path(layout.progress(PLAN.mode, PLACE.folder))
    assert progress.read_text().startswith("# Stage Progress")
    progress.write_text("what agents learned")
    prepare(preparer(tmp_path, layout), 2)
    assert progress.read_text() == "what agents learned"


def test_a_plan_without_the_prompt_fails_its_iteration_and_says_what_to_do(
    tmp_path: Path, layout: RunLayout
) -> None:
    bare = replace(NODE, prompt=None, prompt_path="work.md")
    fact = preparer(tmp_path, layout).do(PrepareTask(PLACE, "plan", 1, node=bare))
    assert isinstance(fact, ErrorOccurred)
    assert (fact.kind, fact.attempt) == (FailureKind.PROMPT_UNREADABLE, 0)
    assert "resume the run with --recompile" in fact.message
    started = prepare(preparer(tmp_path, layout))
    Path(layout.iteration(PLACE.folder, 1).prompt).unlink()
    again = preparer(tmp_path, layout).prepared(replace(attempt(started), node=bare))
    assert isinstance(again, ErrorOccurred)
    assert (again.attempt, again.started) == (1, False)


FEEDBACK = Feedback("Add a title.", "alice", ("stage-00-plan/iterations/002/output.md", "none/result.json"))
ANSWERS = (AnsweredQuestion("db", "Which database?", "sqlite", "bob"),)


def test_what_people_said_is_in_the_prompt_and_in_the_context(tmp_path: Path, layout: RunLayout) -> None:
    shown = Path(layout.root, FEEDBACK.files[0])
    shown.parent.mkdir(parents=True)
    shown.write_text("the first version")
    task = PrepareTask(PLACE, "plan", 1, node=NODE, feedback=FEEDBACK, answers=ANSWERS)
    fact = preparer(tmp_path, layout).do(task)
    assert isinstance(fact, IterationStarted)
    here = Path(layout.iteration(PLACE.folder, 1).root)
    prompt = (here / "prompt.md").read_text()
    assert prompt.startswith("do 1\n\n---\n\nThe previous result of this stage was rejected by alice.")
    assert f"\nIt is about these files:\n- {shown}\n\n----- feedback" in prompt, "of those that exist"
    assert '{"id":"db","question":"Which database?","answer":"sqlite","by":"bob"}\n----- end of' in prompt
    context = json.loads((here / "context.json").read_bytes())
    assert context["feedback"] == {"text": "Add a title.", "by": "alice", "files": [str(shown)]}
    assert context["answers"] == [
        {"id": "db", "question": "Which database?", "answer": "sqlite", "by": "bob"},
    ]
    (here / "prompt.md").unlink()
    again = replace(attempt(fact), feedback=FEEDBACK, answers=ANSWERS)
    assert isinstance(preparer(tmp_path, layout).prepared(again), Prepared)
    assert sha256((here / "prompt.md").read_bytes()).hexdigest() == fact.prompt_sha256


def test_what_people_said_is_where_the_prompt_names_it(tmp_path: Path, layout: RunLayout) -> None:
    node = replace(NODE, prompt="First: ${FEEDBACK}\nThen: ${ANSWERS}\nLast.")
    said = Feedback("Use ${CTX}.", "alice")
    preparer(tmp_path, layout).do(PrepareTask(PLACE, "plan", 1, node=node, feedback=said, answers=ANSWERS))
    prompt = Path(layout.iteration(PLACE.folder, 1).prompt).read_text()
    assert prompt.startswith("First: The previous result of this stage was rejected by alice.")
    assert prompt.endswith("-----\n\nLast.")
    assert "\nThen: You asked questions." in prompt
    assert "\nUse ${CTX}.\n" in prompt, "what was said is not expanded"


def test_prompt_and_context_without_feedback_and_answers(tmp_path: Path, layout: RunLayout) -> None:
    node = replace(NODE, prompt="do [${FEEDBACK}${ANSWERS}]")
    preparer(tmp_path, layout).do(PrepareTask(PLACE, "plan", 1, node=node))
    here = layout.iteration(PLACE.folder, 1)
    assert Path(here.prompt).read_text() == "do []"
    assert not {"feedback", "answers"} & json.loads(Path(here.context).read_bytes()).keys()


def test_result_instructions_come_after_what_people_said(tmp_path: Path, layout: RunLayout) -> None:
    made = Preparer(
        TaskContext(str(tmp_path), layout, PLAN, "r", {}), History(), writes_result=lambda _node: True
    )
    made.do(PrepareTask(PLACE, "plan", 1, node=NODE, feedback=FEEDBACK))
    prompt = Path(layout.iteration(PLACE.folder, 1).prompt).read_text()
    assert prompt.index("----- end of feedback") < prompt.index("When you have finished, write your result")


def test_result_instructions_name_the_verdicts_of_a_stage_with_routes(
    tmp_path: Path, layout: RunLayout
) -> None:
    node = replace(NODE, verdicts=("blocking",), routes=(Route("blocking", "ask"),))
    made = Preparer(
        TaskContext(str(tmp_path), layout, PLAN, "r", {}), History(), writes_result=lambda _node: True
    )
    made.do(PrepareTask(PLACE, "plan", 1, node=node))
    prompt = Path(layout.iteration(PLACE.folder, 1).prompt).read_text()
    assert '"pass", "fail", "reject", "blocking"' in prompt


def test_result_instructions_say_that_items_can_be_named_where_these_can_be_sent_back(
    tmp_path: Path, layout: RunLayout
) -> None:
    verify = replace(NODE, routes=(Route("fail", "go", "build"),))
    plan = plan_of(stage("build", termination=Items(10, "plan.steps")), verify)
    made = Preparer(
        TaskContext(str(tmp_path), layout, plan, "r", {}), History(), writes_result=lambda _node: True
    )
    made.do(PrepareTask(PLACE, "plan", 1, node=verify))
    assert 'add "items"' in Path(layout.iteration(PLACE.folder, 1).prompt).read_text()
