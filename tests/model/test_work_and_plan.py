"""Work items have deterministic ids; a plan says which providers it needs."""

from tests.engine.plans import NOON, block, nested, plan_of, stage

from agentforge.model.event import Cursor
from agentforge.model.place import Place
from agentforge.model.plan import Judgment, ProviderChoice
from agentforge.model.work import (
    CheckQueue,
    End,
    EndJudge,
    Execute,
    Judge,
    Prepare,
    Wait,
    WriteManifest,
)


def test_ids_of_work_name_node_run_iteration_attempt_and_kind() -> None:
    here, node = Place("0", 1, "stage-00-plan"), stage()
    works = (
        Prepare(here, node, 3),
        Execute(here, node, 3, 2, None, None),
        End(here, node, 3, 2),
        Judge(here, node, 3, 1),
        EndJudge(here, node, 3, 1),
        CheckQueue(here, node, 3),
        WriteManifest(here),
        Wait("stop", NOON),
    )
    assert [work.id for work in works] == [
        "0/1/3/0/prepare",
        "0/1/3/2/execute",
        "0/1/3/2/end",
        "0/1/3/1/judge",
        "0/1/3/1/end_judge",
        "0/1/3/0/check_queue",
        "0/1/0/0/write_manifest",
        "wait/stop",
    ]


def test_ids_of_work_differ_between_the_branches_of_a_block() -> None:
    ids = [Prepare(Place("1.0", 1, "", provider), stage(), 1).id for provider in (None, "claude", "codex")]
    assert ids == ["1.0/1/1/0/prepare", "1.0@claude/1/1/0/prepare", "1.0@codex/1/1/0/prepare"]
    waits = [Wait("retry", NOON, Cursor("1.0", 1, 1, provider)).id for provider in (None, "claude", "codex")]
    assert waits == ["wait/retry/1.0/", "wait/retry/1.0/claude", "wait/retry/1.0/codex"]


def test_plan_names_the_providers_that_a_process_needs_to_continue_it() -> None:
    plan = plan_of(stage("a"), stage("b", provider=ProviderChoice("mock", "")), stage("c"))
    assert plan.providers() == {"claude", "mock"}
    assert plan_of(nested("in", block("codex mock", stage("d")))).providers() == {"codex", "mock"}


def test_plan_says_whether_it_needs_a_judge() -> None:
    judged = stage("b", termination=Judgment(3))
    assert not plan_of(stage("a")).is_judged
    assert plan_of(stage("a"), nested("in", block("claude", judged))).is_judged


def test_stages_and_blocks_are_found_by_the_path_of_their_events() -> None:
    plan = plan_of(stage("a"), nested("in", stage("b"), block("claude codex", stage("c"))))
    assert {path: node.id for path, node in plan.by_path.items()} == {
        "0": "a",
        "1.0": "b",
        "1.1": "duel",
        "1.1.0": "c",
    }
