"""A later pass of a node or block begins at its beginning, although a damaged log lost how it was entered."""

from tests.engine.plans import event, plan_of, stage, started

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.result import Decision, Result
from agentforge.model.state import BlockState, RunState, StageState
from agentforge.model.status import NodeStatus

COMPLETED = f.IterationCompleted("plan", 1, Decision.CONTINUE, "", "result.json", Result(), 1)
ITERATION = f.IterationStarted("plan", "plan", "claude", "opus", "0" * 64)


def after(*recorded: tuple[f.AnyFact, Cursor]) -> RunState:
    state = evolve(None, event(1, started(plan_of(stage())), Cursor("0", 0, 0)))
    for seq, (fact, cursor) in enumerate(recorded, 2):
        state = evolve(state, event(seq, fact, cursor))
    return state


def test_of_a_node() -> None:
    state = after(
        (f.NodeStarted("plan", "0", 1), Cursor("0", 1, 0)),
        (COMPLETED, Cursor("0", 1, 1)),
        (ITERATION, Cursor("0", 2, 1)),
    )
    assert isinstance(state.at, StageState)
    assert (state.at.run, state.at.completed) == (2, 0)
    assert state.at.iteration is not None


def test_of_a_block() -> None:
    entered = f.NodeStarted("duel", "0", 1, kind="parallel", providers=("claude", "codex"))
    state = after(
        (entered, Cursor("0", 1, 0)),
        (f.ProviderStarted("claude", ("draft",)), Cursor("0", 1, 0, "claude")),
        (f.ProviderCompleted("claude"), Cursor("0", 1, 0, "claude")),
        (f.ProviderStarted("codex", ("draft",)), Cursor("0", 2, 0, "codex")),
    )
    assert isinstance(state.at, BlockState)
    assert state.at.run == 2
    assert {branch.provider: branch.status for branch in state.at.branches} == {"codex": NodeStatus.RUNNING}


def test_of_a_stage_in_a_block() -> None:
    entered = f.NodeStarted("duel", "0", 1, kind="parallel", providers=("claude",))
    state = after(
        (entered, Cursor("0", 1, 0)),
        (COMPLETED, Cursor("0.0", 1, 1, "claude")),
        (ITERATION, Cursor("0.0", 2, 1, "claude")),
    )
    assert isinstance(state.at, BlockState)
    branch = state.at.branch("claude")
    assert branch is not None
    assert branch.stage is not None
    assert (state.at.run, branch.stage.run, branch.stage.completed) == (1, 2, 0), "a visit of the stage"
