"""The trees before and after the attempts of a visit."""

from tests.engine.plans import event, plan_of, stage

from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.place import Place
from agentforge.views.attempt_trees import attempt_trees

A, B, C, D = (letter * 40 for letter in "abcd")
HERE, OTHER = Cursor("0", 1, 1), Cursor("0", 2, 1)
BEGUN = f.AttemptStarted(1, 1, "claude", "opus")


def trees(*said: f.AnyFact | tuple[f.AnyFact, Cursor | None], path: str = "0") -> list[object]:
    events: list[Event] = []
    for number, one in enumerate(said, 1):
        fact, at = one if isinstance(one, tuple) else (one, HERE)
        events.append(event(number, fact, at))
    return [*attempt_trees(events, Place(path, 1, "stage-00-a"))]


def lost(tree: str | None, *, started: bool = True) -> f.AttemptLost:
    return f.AttemptLost(1, "died", started=started, tree=tree)


def test_the_tree_before_is_the_latest_one_unless_something_else_changed_the_files() -> None:
    assert trees(
        f.TimerFired("stop"),
        (BEGUN, OTHER),
        (f.TreeTaken(1, tree=A), OTHER),
        (lost(B), OTHER),
        BEGUN,
        lost(C),
        BEGUN,
        f.TreeTaken(1, tree=D),
        lost(A),
    ) == [(B, C), (D, A)]


def test_what_did_not_run_changed_nothing_and_unknown_trees_are_unknown() -> None:
    assert trees(
        f.TreeTaken(1, tree=A),
        BEGUN,
        lost(None, started=False),
        f.ErrorOccurred(FailureKind.PROMPT_UNREADABLE, "no", "a", 0),
        BEGUN,
        f.TreeTaken(1, "after", problem="too many files"),
        lost(None),
        BEGUN,
        lost("--output=x"),
    ) == [(A, None), (None, None)]
    assert trees() == []


def test_a_visit_moves_with_its_stage() -> None:
    from tests.engine.playbook import play

    plan = plan_of(stage("a"))
    state = play(plan, "> start\n< node_start a\n? prepare a 1").state
    assert state is not None
    moved = plan_change(plan_of(stage("new"), stage("a")), plan, state)
    said = (f.TreeTaken(1, tree=A), BEGUN, lost(B), BEGUN, (moved, HERE), (lost(C), Cursor("1", 1, 1)))
    assert trees(*said, path="1") == [(A, B), (B, C)]
