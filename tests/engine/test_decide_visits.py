"""Playbooks of nodes that are entered again: each visit has its own number, folder and iterations.

Nothing in the engine leads back yet, so the scripts say where a node leads (`^`), as a router will.
"""

import json

import msgspec
from msgspec.structs import replace
from tests.engine.plans import block, event, nested, plan_of, stage
from tests.engine.playbook import Play, play, refold

from agentforge.engine.decide.run import decide
from agentforge.engine.nodes import NodeKey, NodeKeys, node_key, parse_key, recorded_key
from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.event import Event
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Approval, FromStage, InputSources, Judgment, Plan, Queue
from agentforge.model.result import Decision, Result
from agentforge.model.state import BlockState, RunState, StageState
from agentforge.model.status import RunStatus
from agentforge.model.task import AgentTask, ManifestTask, PrepareTask
from agentforge.views.files.context import context_file
from agentforge.views.history import History


def visits(conversation: Play) -> list[tuple[str, int, str]]:
    """Every visit as it was recorded: path, number, folder."""
    facts = (one.fact for one in conversation.events)
    return [(fact.path, fact.run, fact.folder) for fact in facts if isinstance(fact, f.NodeStarted)]


def once(name: str, number: int = 1) -> str:
    """One iteration of a stage, from its preparation until its agent is running."""
    return f"""
        ? prepare {name} {number}
        > prepared
        < attempt_start 1
        ? execute {name} {number} attempt 1
    """


def done(name: str, iterations: int = 1) -> str:
    return f"< node_complete {name}: Completed {iterations} iterations (max: {iterations})\n"


TWO = plan_of(stage("plan", runs=2), stage("build"))
PLAN_ONCE = f"""
    < node_start plan
    {once("plan", 1)}
    > completed
    {once("plan", 2)}
    > completed
    {done("plan", 2)}
"""
THRICE = f"""
    > start
    {PLAN_ONCE}
    < node_start build
    {once("build")}
    ^ 0
    > completed
    {done("build")}
    {PLAN_ONCE}
    < node_start build
    {once("build")}
    ^ 0
    > completed
    {done("build")}
    {PLAN_ONCE}
    < node_start build
    {once("build")}
"""


def test_node_entered_three_times_has_three_visits_numbered_without_gaps() -> None:
    conversation = play(TWO, THRICE)
    assert visits(conversation) == [
        ("0", 1, "stage-00-plan"),
        ("1", 1, "stage-01-build"),
        ("0", 2, "stage-00-plan/run-002"),
        ("1", 2, "stage-01-build/run-002"),
        ("0", 3, "stage-00-plan/run-003"),
        ("1", 3, "stage-01-build/run-003"),
    ]
    assert conversation.state is not None
    assert conversation.state.visits == {"0": 3, "1": 3}


def test_iterations_are_counted_from_one_in_each_visit() -> None:
    conversation = play(TWO, THRICE)
    begun = [one.cursor for one in conversation.events if isinstance(one.fact, f.IterationStarted)]
    at_first = [(at.node_run, at.iteration) for at in begun if at and at.node_path == "0"]
    assert at_first == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]


def test_tasks_of_a_later_visit_have_its_folder_and_ids_of_their_own() -> None:
    conversation = play(TWO, THRICE)
    (task,) = conversation.work
    assert isinstance(task, AgentTask)
    assert (task.place.folder, task.place.run) == ("stage-01-build/run-003", 3)
    assert task.id == "1/3/1/1/agent"


def test_state_keeps_one_record_per_path_that_of_the_latest_visit() -> None:
    state = play(TWO, THRICE).state
    assert state is not None
    assert [(record.path, record.run) for record in state.stages] == [("1", 2), ("0", 3)]


def test_counters_of_a_stage_are_reset_in_each_visit() -> None:
    """What was queued, judged or refused in an earlier visit says nothing about this one."""
    plan = plan_of(stage("sweep", termination=Queue(3, check_before=True)), stage("check"))
    conversation = play(
        plan,
        f"""
        > start
        < node_start sweep
        ? check queue sweep 0
        > left-in-queue 0
        < node_complete sweep: All beads complete
        < node_start check
        {once("check")}
        ^ 0
        > completed
        {done("check")}
        < node_start sweep
        ? check queue sweep 0
        > left-in-queue 1
        {once("sweep")}
        """,
    )
    assert conversation.state is not None
    assert conversation.state.node == replace(
        StageState("0", 2, "stage-00-sweep/run-002", conversation.now),
        queue_checked=0,
        queue_left=1,
        iteration=conversation.state.iteration,
    )


def test_judge_of_a_later_visit_is_called_as_in_the_first() -> None:
    plan = plan_of(stage("refine", termination=Judgment(3, 1, 1)))
    judged = f"""
        < node_start refine
        {once("refine")}
        > completed
        < judge_start 1
        ? judge refine 1 attempt 1
    """
    play(
        plan,
        f"""
        > start
        {judged}
        ^ 0
        > judged stop enough
        < node_complete refine: Consensus reached: 1 consecutive agents agree to stop Reason: enough
        {judged}
        > judged stop again
        < node_complete refine: Consensus reached: 1 consecutive agents agree to stop Reason: again
        < session_complete all_loops_complete
        = completed
        """,
    )


DUEL = plan_of(block("claude codex", stage("draft")), stage("judge"))
DUEL_ONCE = """
    < node_start duel
    < claude: parallel_provider_start
    < codex: parallel_provider_start
    ? claude: prepare draft 1
    ? codex: prepare draft 1
    > claude: prepared
    < claude: attempt_start 1
    ? claude: execute draft 1 attempt 1
    ? codex: prepare draft 1
    > claude: completed
    < claude: stage_complete draft: Completed 1 iterations (max: 1)
    < claude: parallel_provider_complete completed
    ? codex: prepare draft 1
    > codex: prepared
    < codex: attempt_start 1
    ? codex: execute draft 1 attempt 1
    > codex: completed
    < codex: stage_complete draft: Completed 1 iterations (max: 1)
    < codex: parallel_provider_complete completed
    ? manifest duel
"""


def test_block_entered_again_restarts_all_branches_in_its_own_folder() -> None:
    conversation = play(
        DUEL,
        f"""
        > start
        {DUEL_ONCE}
        > manifest
        < node_complete duel: all providers complete
        < node_start judge
        {once("judge")}
        ^ 0
        > completed
        {done("judge")}
        {DUEL_ONCE}
        """,
    )
    assert visits(conversation)[-1] == ("0", 2, "parallel-00-duel/run-002")
    assert conversation.state is not None
    assert isinstance(conversation.state.at, BlockState)
    assert (conversation.state.at.run, conversation.state.at.manifest) == (2, False)
    (manifest,) = conversation.work
    assert isinstance(manifest, ManifestTask)
    assert manifest.place.folder == "parallel-00-duel/run-002"
    begun = [one.cursor for one in conversation.events if isinstance(one.fact, f.AttemptStarted)]
    places = {(at.node_path, at.node_run) for at in begun if at}
    assert places == {("0.0", 1), ("1", 1), ("0.0", 2)}


def test_branch_folder_of_a_later_visit_is_inside_that_visit() -> None:
    conversation = play(
        DUEL,
        f"""
        > start
        {DUEL_ONCE}
        ^ 0
        > manifest
        < node_complete duel: all providers complete
        < node_start duel
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        ? claude: prepare draft 1
        ? codex: prepare draft 1
        """,
    )
    first = conversation.work[0]
    assert isinstance(first, PrepareTask)
    assert first.place.folder == "parallel-00-duel/run-002/providers/claude/stage-00-draft"
    assert first.place.scope == "parallel-00-duel/run-002/providers/claude"


NESTED = plan_of(nested("polish", stage("refine"), stage("check"), runs=2), stage("last"))


def test_node_of_a_nested_pipeline_entered_again_uses_the_recorded_round() -> None:
    """From the second round's check back to refine: not a third round, and then onward to the last."""
    conversation = play(
        NESTED,
        f"""
        > start
        < node_start refine
        {once("refine")}
        > completed
        {done("refine")}
        < node_start check
        {once("check")}
        > completed
        {done("check")}
        < node_start refine
        {once("refine")}
        > completed
        {done("refine")}
        < node_start check
        {once("check")}
        ^ 0.0 1,2
        > completed
        {done("check")}
        < node_start refine
        {once("refine")}
        > completed
        {done("refine")}
        < node_start check
        {once("check")}
        > completed
        {done("check")}
        < node_start last
        {once("last")}
        > completed
        {done("last")}
        < session_complete all_loops_complete
        """,
    )
    assert visits(conversation) == [
        ("0.0", 1, "pipeline-00-polish/stage-00-refine"),
        ("0.1", 1, "pipeline-00-polish/stage-01-check"),
        ("0.0", 2, "pipeline-00-polish/run-002/stage-00-refine"),
        ("0.1", 2, "pipeline-00-polish/run-002/stage-01-check"),
        ("0.0", 3, "pipeline-00-polish/run-003/stage-00-refine"),
        ("0.1", 3, "pipeline-00-polish/run-003/stage-01-check"),
        ("1", 1, "stage-01-last"),
    ]


def test_route_to_a_node_missing_from_the_plan_fails_the_run() -> None:
    conversation = play(
        TWO,
        f"""
        > start
        {PLAN_ONCE}
        < node_start build
        {once("build")}
        ^ 7
        > completed
        {done("build")}
        < session_failed state_corrupt
        = failed
        """,
    )
    assert conversation.state is not None
    assert conversation.state.failure is not None
    assert conversation.state.failure.message == "the plan has no node at '7'"


def test_recovery_in_a_later_visit_continues_that_visit() -> None:
    conversation = play(TWO, THRICE)
    conversation.happens("recover")
    (task,) = conversation.work
    assert (task.cursor, task.id) == (Cursor("1", 3, 1), "1/3/1/1/agent")


# -- what earlier visits left


LAYOUT = RunLayout.of("/project", "auth")


def remembered(events: list[Event]) -> History:
    history = History()
    for one in events:
        history.apply(one)
    return history


def completed_in(at: Cursor, output: str) -> Event:
    fact = f.IterationCompleted("x", 1, Decision.CONTINUE, "", "result.json", Result(), 10, output=output)
    return event(1, fact, at)


def test_context_of_a_later_visit_has_the_inputs_and_history_of_latest_visits_only() -> None:
    source = InputSources(from_stage=(FromStage("plan", "0", "all"),))
    plan = plan_of(stage("plan", runs=2), stage("build", runs=3, sources=source))
    history = remembered(
        [
            completed_in(Cursor("0", 1, 1), "plan-1-1.md"),
            completed_in(Cursor("0", 1, 2), "plan-1-2.md"),
            completed_in(Cursor("1", 1, 1), "build-1-1.md"),
            completed_in(Cursor("0", 2, 1), "plan-2-1.md"),
            completed_in(Cursor("1", 2, 1), "build-2-1.md"),
        ]
    )
    begun = replace(StageState("1", 2, "stage-01-build/run-002"), completed=1)
    conversation = play(TWO, "> start\n< node_start plan\n? prepare plan 1")
    assert conversation.state is not None
    task = decide(plan, replace(conversation.state, at=begun)).work[0]
    assert isinstance(task, PrepareTask)
    context = context_file(task, plan, LAYOUT, history)
    assert context.paths.output == f"{LAYOUT.root}/stage-01-build/run-002/iterations/002/output.md"
    assert context.paths.progress == f"{LAYOUT.root}/stage-01-build/run-002/progress.md"
    inputs = json.loads(msgspec.json.encode(context))["inputs"]
    assert inputs["from_stage"] == {"plan": [f"{LAYOUT.root}/plan-2-1.md"]}
    assert inputs["from_previous_iterations"] == [f"{LAYOUT.root}/build-2-1.md"]


def test_first_iteration_of_a_later_visit_has_no_previous_iterations() -> None:
    history = remembered([completed_in(Cursor("0", 1, 1), "plan-1-1.md")])
    conversation = play(TWO, "> start\n< node_start plan\n? prepare plan 1")
    assert conversation.state is not None
    entered = replace(conversation.state, at=StageState("0", 2, "stage-00-plan/run-002"))
    task = decide(TWO, entered).work[0]
    assert isinstance(task, PrepareTask)
    assert history.stage(task.place.path, task.place.branch, task.place.run).paths == []


# -- continuing with another plan, rehearsing, and the names that recordings use


def apply_plan_change(conversation: Play, plan: Plan) -> RunState:
    assert conversation.state is not None
    fact = plan_change(plan, conversation.plan, conversation.state)
    conversation.record(fact, conversation.state.cursor)
    assert conversation.state is not None
    return conversation.state


def test_unplanned_visit_keeps_its_number_and_folder_when_its_node_moves() -> None:
    conversation = play(TWO, THRICE)
    moved = plan_of(stage("first"), stage("plan", runs=2), stage("build", runs=2))
    state = apply_plan_change(conversation, moved)
    assert state.node is not None
    assert (state.node.path, state.node.run, state.node.folder) == ("2", 3, "stage-01-build/run-003")
    assert state.visits == {"1": 3, "2": 3}
    (task,) = decide(moved, state).work
    assert isinstance(task, AgentTask)
    assert task.place.folder == "stage-01-build/run-003"


def test_visit_count_continues_after_a_node_moved() -> None:
    conversation = play(TWO, THRICE)
    apply_plan_change(conversation, plan_of(stage("first"), stage("plan", runs=2), stage("build")))
    conversation.answer()
    conversation.routed = Destination("1")
    assert conversation.happens("completed") == [
        "< node_complete build: Completed 1 iterations (max: 1)",
        "< node_start plan",
        "? prepare plan 1",
    ]
    assert visits(conversation)[-1] == ("1", 4, "stage-01-plan/run-004")


def test_rehearsal_of_visits_missing_from_the_plan_reports_the_difference() -> None:
    conversation = play(TWO, THRICE)
    rehearsal = rehearse(TWO, conversation.events)
    assert rehearsal.difference is not None
    parted, instead = rehearsal.difference.past, rehearsal.difference.now
    assert (parted.what, parted.stage, parted.visit) == ("node_entered", "plan", 2)
    assert instead is not None
    assert instead.what == "run_completed"


def test_keys_of_any_visit_resolve_to_its_node() -> None:
    plan = plan_of(stage("plan"), block("claude codex", stage("draft")), nested("polish", stage("refine")))
    keys = NodeKeys(plan)
    for at in (Cursor("0", 7, 2), Cursor("1.0", 12, 3, "codex"), Cursor("2.0", 1000, 1), Cursor("1", 2, 0)):
        assert keys.cursor(keys.at(at), at.iteration) == at


def test_key_of_a_path_holds_in_every_plan() -> None:
    plan = plan_of(stage("plan"), block("claude codex", stage("draft")), nested("polish", stage("refine")))
    found = {path: node_key(plan, path) for path in ("0", "1", "1.0", "2.0", "1.7", "9", "stage-gone")}
    assert list(found.values()) == [
        *("stage-plan", "parallel-duel", "parallel-duel/draft", "pipeline-polish/stage-refine"),
        *("1.7", "9", "stage-gone"),
    ]


def test_recorded_names_of_visits_that_no_plan_foresaw_are_read_back() -> None:
    plan = plan_of(stage("plan"), block("claude codex", stage("draft")), nested("polish", stage("refine")))
    for path, run, branch, name in (
        ("0", 1, "", "stage-plan"),
        ("0", 7, "", "stage-plan/run-007"),
        ("1.0", 12, "codex", "parallel-duel/run-012"),
        ("2.0", 1000, "", "pipeline-polish/run-1000/stage-refine"),
    ):
        assert recorded_key(plan, path, run) == name
        key = parse_key(name, branch, "draft")
        stage_name = "draft" if branch else ""
        node = {"0": "stage-plan", "1.0": "parallel-duel", "2.0": "pipeline-polish/stage-refine"}[path]
        assert key == NodeKey(node, run, branch or None, stage_name)
        assert NodeKeys(plan).cursor(key, 1) == Cursor(path, run, 1, branch or None)


def test_stage_of_a_branch_has_a_number_of_its_own_in_each_visit_of_the_block() -> None:
    """Also after a rejection, by which it has more visits than its block."""
    conversation = Play(
        plan_of(nested("rounds", block("claude", stage("draft", approve=Approval())), runs=3))
    )
    conversation.happens("start")
    answers = iter(["reject", "approve", "approve", "approve"])
    while conversation.state and conversation.state.status is not RunStatus.COMPLETED:
        if conversation.state.requests:
            (request,) = conversation.state.requests
            answer = f.RequestAnswered(request.id, next(answers), "Ada", "Shorter.")
            conversation.record(answer, request.at)
            conversation.answer()
            continue
        (task,) = conversation.work
        ends = {"prepare": "claude: prepared", "agent": "claude: completed", "manifest": "manifest"}
        conversation.happens(ends[task.KIND])
    begun = [one.cursor for one in conversation.events if isinstance(one.fact, f.IterationStarted)]
    assert [at.node_run for at in begun if at] == [1, 2, 3, 4]
    refold(conversation)
