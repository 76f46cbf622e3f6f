"""Whether a program of an earlier engine is running: by its claim, its exit record and its process."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, event, plan_of, stage, started

from agentforge.app.runs.lock_folder import locked_sessions
from agentforge.engine.decide.task_kinds import in_flight
from agentforge.engine.evolve.run import evolve
from agentforge.model.check import Check
from agentforge.model.cursor import Cursor
from agentforge.model.layout import AttemptLayout, RunLayout
from agentforge.model.place import Place
from agentforge.model.plan import ProviderChoice
from agentforge.model.state import (
    AttemptState,
    IterationState,
    RunState,
    StageState,
    TaskState,
)
from agentforge.model.status import IterationStatus, TaskStatus
from agentforge.model.task import AgentTask
from agentforge.runtime.attempt_folder import named
from agentforge.runtime.supervision import has_living_program
from agentforge.system.folders import draft_name

from .test_supervised_claims import FakeProcesses, claimed, ended

PLAN = plan_of(stage())
RUN = evolve(None, event(1, started(PLAN), Cursor("0", 0, 0)))
AGENT = AgentTask(
    Place("0", 1, ""), "plan", 1, 1, node=stage(), by=ProviderChoice("claude", "opus"), started_at=NOON
)
MARK = named(AGENT.mark(RUN.run_id))


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(str(tmp_path / "run"), "s")


@pytest.fixture
def place(layout: RunLayout) -> AttemptLayout:
    found = layout.iteration("stage-00-plan", 1).attempt(1)
    Path(found.root).mkdir(parents=True)
    return found


def attempt_in_flight(status: TaskStatus = TaskStatus.RUNNING) -> RunState:
    attempt = AttemptState(1, status, NOON)
    iteration = IterationState(1, IterationStatus.STARTED, NOON, attempt=attempt, attempts=1)
    return replace(RUN, at=StageState("0", 1, "stage-00-plan", iteration=iteration))


def test_agent_whose_supervisor_lives_is_running(layout: RunLayout, place: AttemptLayout) -> None:
    claimed(place, mark=MARK)
    assert has_living_program(PLAN, attempt_in_flight(), layout, FakeProcesses(place))


def test_agent_of_the_project_that_this_one_was_copied_from_is_not(
    layout: RunLayout, place: AttemptLayout
) -> None:
    claimed(place, mark=MARK, place={"path": "/the/original/attempt-1", "device": 1, "inode": 2})
    assert not has_living_program(PLAN, attempt_in_flight(), layout, FakeProcesses(place))


def test_agent_of_another_attempt_is_not(layout: RunLayout, place: AttemptLayout) -> None:
    claimed(place)
    assert not has_living_program(PLAN, attempt_in_flight(), layout, FakeProcesses(place))


def test_agent_without_a_claim_is_not(layout: RunLayout, place: AttemptLayout) -> None:
    assert not has_living_program(PLAN, attempt_in_flight(), layout, FakeProcesses(place))


def test_agent_that_ended_is_not(layout: RunLayout, place: AttemptLayout) -> None:
    claimed(place, mark=MARK)
    ended(place, mark=MARK)
    assert not has_living_program(PLAN, attempt_in_flight(), layout, FakeProcesses(place))


def test_agent_whose_supervisor_died_is_not(layout: RunLayout, place: AttemptLayout) -> None:
    claimed(place, mark=MARK)
    processes = FakeProcesses(place)
    processes.alive = False
    assert not has_living_program(PLAN, attempt_in_flight(), layout, processes)


def test_agent_that_the_log_knows_to_be_over_is_not(layout: RunLayout, place: AttemptLayout) -> None:
    claimed(place, mark=MARK)
    assert not has_living_program(PLAN, attempt_in_flight(TaskStatus.LOST), layout, FakeProcesses(place))


@pytest.mark.parametrize("kind", ["judge", "check"])
def test_judge_or_check_whose_supervisor_lives_is_running(layout: RunLayout, kind: str) -> None:
    plan = plan_of(stage(checks=(Check("unit", "make test"),)))
    at = StageState("0", 1, "stage-00-plan", completed=2)
    if kind == "judge":
        at = replace(at, calls={"judge": TaskState(1, TaskStatus.RUNNING, NOON)})
        place = AttemptLayout(f"{layout.root}/stage-00-plan/iterations/002/judge-1")
    else:
        at = replace(at, calls={"check": TaskState(1, TaskStatus.RUNNING, NOON, about="unit")})
        place = AttemptLayout(f"{layout.root}/stage-00-plan/checks/unit-2-1")
    state = replace(RUN, at=at)
    (task,) = in_flight(plan, state)
    Path(place.root).mkdir(parents=True)
    claimed(place, mark=named(task.mark(RUN.run_id)))
    assert has_living_program(plan, state, layout, FakeProcesses(place))
    over = replace(state, at=StageState("0", 1, "stage-00-plan", completed=2))
    assert not has_living_program(plan, over, layout, FakeProcesses(place))


def test_sessions_are_found_by_their_locks_and_by_drafts_of_locks(tmp_path: Path) -> None:
    locks = tmp_path / ".claude" / "locks"
    locks.mkdir(parents=True)
    for name in ("a.lock", draft_name("b.lock"), "c.lock", draft_name("c.lock"), "notes.txt"):
        (locks / name).write_text(json.dumps({}))
    assert locked_sessions(str(tmp_path)) == ["a", "b", "c"]
