"""Whether an agent of an earlier engine is at work: by its claim, its exit record and its process."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, event, plan_of, stage, started

from agentforge.app.runs.lock_folder import locked_sessions
from agentforge.engine.evolve.run import evolve
from agentforge.model.cursor import Cursor
from agentforge.model.layout import AttemptLayout, RunLayout
from agentforge.model.state import AttemptState, IterationState, RunState, StageState
from agentforge.model.status import IterationStatus, TaskStatus
from agentforge.model.task import agent_mark
from agentforge.runtime.attempt_folder import named
from agentforge.runtime.supervision import has_living_agent
from agentforge.system.folders import draft_name

from .test_supervised_claims import FakeProcesses, claimed, ended

PLAN = plan_of(stage())
RUN = evolve(None, event(1, started(PLAN), Cursor("0", 0, 0)))
MARK = named(agent_mark(RUN.run_id, Cursor("0", 1, 1), 1, NOON))


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(str(tmp_path / "run"), "s")


@pytest.fixture
def place(layout: RunLayout) -> AttemptLayout:
    found = layout.iteration("stage-00-plan", 1).attempt(1)
    Path(found.root).mkdir(parents=True)
    return found


def at_work(status: TaskStatus = TaskStatus.RUNNING) -> RunState:
    attempt = AttemptState(1, status, NOON)
    iteration = IterationState(1, IterationStatus.STARTED, NOON, attempt=attempt, attempts=1)
    return replace(RUN, at=StageState("0", 1, "stage-00-plan", iteration=iteration))


def test_agent_whose_supervisor_lives_is_at_work(layout: RunLayout, place: AttemptLayout) -> None:
    claimed(place, mark=MARK)
    assert has_living_agent(PLAN, at_work(), layout, FakeProcesses(place))


def test_agent_of_the_project_that_this_one_was_copied_from_is_not(
    layout: RunLayout, place: AttemptLayout
) -> None:
    claimed(place, mark=MARK, place={"path": "/the/original/attempt-1", "device": 1, "inode": 2})
    assert not has_living_agent(PLAN, at_work(), layout, FakeProcesses(place))


def test_agent_of_another_attempt_is_not(layout: RunLayout, place: AttemptLayout) -> None:
    claimed(place)
    assert not has_living_agent(PLAN, at_work(), layout, FakeProcesses(place))


def test_agent_without_a_claim_is_not(layout: RunLayout, place: AttemptLayout) -> None:
    assert not has_living_agent(PLAN, at_work(), layout, FakeProcesses(place))


def test_agent_that_ended_is_not(layout: RunLayout, place: AttemptLayout) -> None:
    claimed(place, mark=MARK)
    ended(place, mark=MARK)
    assert not has_living_agent(PLAN, at_work(), layout, FakeProcesses(place))


def test_agent_whose_supervisor_died_is_not(layout: RunLayout, place: AttemptLayout) -> None:
    claimed(place, mark=MARK)
    processes = FakeProcesses(place)
    processes.alive = False
    assert not has_living_agent(PLAN, at_work(), layout, processes)


def test_agent_that_the_log_knows_to_be_over_is_not(layout: RunLayout, place: AttemptLayout) -> None:
    claimed(place, mark=MARK)
    assert not has_living_agent(PLAN, at_work(TaskStatus.LOST), layout, FakeProcesses(place))


def test_sessions_are_found_by_their_locks_and_by_drafts_of_locks(tmp_path: Path) -> None:
    locks = tmp_path / ".claude" / "locks"
    locks.mkdir(parents=True)
    for name in ("a.lock", draft_name("b.lock"), "c.lock", draft_name("c.lock"), "notes.txt"):
        (locks / name).write_text(json.dumps({}))
    assert locked_sessions(str(tmp_path)) == ["a", "b", "c"]
