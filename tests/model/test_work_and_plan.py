"""Work items have deterministic ids; a plan says which providers it needs."""

from datetime import timedelta

from msgspec.structs import replace
from tests.engine.plans import NOON, block, nested, plan_of, stage

from agentforge.model.artifact import ArtifactRule
from agentforge.model.check import Check
from agentforge.model.cursor import Cursor
from agentforge.model.hook import Hook
from agentforge.model.layout import RunLayout
from agentforge.model.place import Place
from agentforge.model.plan import VERDICTS, Items, Judgment, ProviderChoice, Route
from agentforge.model.task import (
    AgentTask,
    CheckTask,
    HookTask,
    JudgeTask,
    ManifestTask,
    PrepareTask,
    QueueTask,
    Wait,
)

HERE, NODE, BY = Place("0", 1, "stage-00-plan"), stage(), ProviderChoice("claude", "opus")


def test_ids_of_work_name_node_run_iteration_attempt_and_kind() -> None:
    agent = AgentTask(HERE, "plan", 3, 2, node=NODE, by=BY, started_at=NOON)
    judge = JudgeTask(HERE, "plan", 3, 1, node=NODE, by=BY, started_at=NOON)
    check = CheckTask(HERE, "plan", 3, 1, node=NODE, check=Check("tests", "make test"), started_at=NOON)
    works = (
        PrepareTask(HERE, "plan", 3, node=NODE),
        agent,
        replace(agent, ending=True),
        judge,
        replace(judge, ending=True),
        check,
        replace(check, ending=True),
        QueueTask(HERE, "plan", 3),
        ManifestTask(HERE, "duel"),
        Wait("stop", NOON),
    )
    assert [work.id for work in works] == [
        "0/1/3/0/prepare",
        "0/1/3/2/agent",
        "0/1/3/2/agent/end",
        "0/1/3/1/judge",
        "0/1/3/1/judge/end",
        "0/1/3/1/check/tests",
        "0/1/3/1/check/tests/end",
        "0/1/3/0/queue",
        "0/1/0/0/manifest",
        "wait/stop",
    ]


def test_programs_of_tasks_have_folders_of_their_own() -> None:
    agent = AgentTask(HERE, "plan", 3, 2, node=NODE, by=BY, started_at=NOON)
    judge = JudgeTask(HERE, "plan", 3, 2, node=NODE, by=BY, started_at=NOON)
    tell = Hook("tell", "stage_end", "script")
    hook = HookTask(HERE, "plan", 3, 2, hook=tell, delivery="d", at=None, started_at=NOON)
    assert [task.folder(RunLayout("/run", "s")).root for task in (agent, judge, hook)] == [
        "/run/stage-00-plan/iterations/003/attempt-2",
        "/run/stage-00-plan/iterations/003/judge-2",
        "/run/hooks/d/attempt-2",
    ]


def test_processes_of_a_task_have_one_mark_whether_it_runs_or_stops() -> None:
    agent = AgentTask(HERE, "plan", 3, 2, node=NODE, by=BY, started_at=NOON)
    judge = JudgeTask(HERE, "plan", 3, 2, node=NODE, by=BY, started_at=NOON)
    stamp = f"{int(NOON.timestamp()) * 1_000_000:x}"
    marks = [task.mark("run") for task in (agent, replace(agent, ending=True))]
    assert marks == [f"run/0/1/3/2@{stamp}"] * 2
    marks = [task.mark("run") for task in (judge, replace(judge, ending=True))]
    assert marks == [f"run/0/1/3/2/judge@{stamp}"] * 2


def test_attempts_with_the_same_position_and_number_have_different_marks() -> None:
    """The position of a node changes when a run is recompiled."""
    agent = AgentTask(HERE, "plan", 3, 2, node=NODE, by=BY, started_at=NOON)
    later = replace(agent, started_at=NOON + timedelta(microseconds=1))
    assert agent.mark("run") != later.mark("run")


def test_ids_of_work_differ_between_the_branches_of_a_block() -> None:
    ids = [
        PrepareTask(Place("1.0", 1, "", provider), "plan", 1, node=NODE).id
        for provider in (None, "claude", "codex")
    ]
    assert ids == ["1.0/1/1/0/prepare", "1.0@claude/1/1/0/prepare", "1.0@codex/1/1/0/prepare"]
    waits = [Wait("retry", NOON, Cursor("1.0", 1, 1, provider)).id for provider in (None, "claude", "codex")]
    assert waits == ["wait/retry/1.0/", "wait/retry/1.0/claude", "wait/retry/1.0/codex"]


def test_plan_names_the_providers_that_a_process_needs_to_continue_it() -> None:
    plan = plan_of(stage("a"), stage("b", provider=ProviderChoice("mock", "")), stage("c"))
    assert plan.providers() == {"claude", "mock"}
    assert plan_of(nested("in", block("codex mock", stage("d")))).providers() == {"codex", "mock"}


def test_plan_names_its_judges() -> None:
    judged = stage("b", termination=Judgment(3))
    own = stage("c", termination=Judgment(3), judge=ProviderChoice("codex", "o3"))
    assert plan_of(stage("a", judge=ProviderChoice("codex", "o3"))).judges() == set()
    assert plan_of(stage("a"), nested("in", block("x", judged))).judges() == {"claude"}
    assert plan_of(judged, own).judges() == {"claude", "codex"}


def test_every_stage_of_a_plan_can_be_changed() -> None:
    plan = plan_of(stage("a"), nested("in", block("claude codex", stage("b"))))
    changed = plan.with_stages(lambda node: replace(node, context="x"))
    assert [stage.context for step in changed.steps for stage in step.stages] == ["x"] * 3
    assert changed.with_stages(lambda node: replace(node, context=None)) == plan


def test_stages_and_blocks_are_found_by_the_path_of_their_events() -> None:
    plan = plan_of(stage("a"), nested("in", stage("b"), block("claude codex", stage("c"))))
    assert {path: node.id for path, node in plan.by_path.items()} == {
        "0": "a",
        "1.0": "b",
        "1.1": "duel",
        "1.1.0": "c",
    }


def test_hooks_of_the_program_are_known_by_their_ids() -> None:
    inner = plan_of(stage("b"))
    inner = replace(inner, pipeline=replace(inner.pipeline, hooks=(Hook("i", "stage_end", "confirm"),)))
    outer = plan_of(stage("a"), replace(nested("n"), plan=inner))
    called = Hook("stage_end-see", "stage_end", "call")
    plan = replace(outer, pipeline=replace(outer.pipeline, hooks=(called,)))
    assert [hook.id for hook in plan.all_hooks] == ["stage_end-see", "i"]
    assert plan.program_hooks == ("stage_end-see",)
    assert outer.program_hooks == ()


def test_reports_of_all_checks_are_known_by_their_plain_paths() -> None:
    checks = (Check("test", "t", report="./out/report.xml"), Check("lint", "l"))
    plan = plan_of(stage("plan"), nested("inner", stage("build", checks=checks)))
    assert plan.check_reports == {"out/report.xml"}


def test_a_stage_returns_items_if_a_route_leads_back_to_those_of_another() -> None:
    build = stage("build", termination=Items(10, "plan.steps"), routes=(Route("fail", "go", "build"),))
    verify, other = stage("verify", routes=(Route("fail", "go", "build"),)), stage("other")
    plan = plan_of(other, build, verify)
    assert [plan.returns_items(node) for node in (other, build, verify)] == [False, False, True]
    assert not plan_of(other, stage("build"), verify).returns_items(verify)
    stating = stage("verify", routes=verify.routes, artifact=ArtifactRule({}, result=("items",)))
    assert not plan_of(other, build, stating).returns_items(stating)


def test_agents_are_asked_for_a_verdict_unless_their_artifact_states_it() -> None:
    routes, rule = (Route("fail", "go", "build"),), ArtifactRule({}, result=("verdict",))
    assert stage("build").asked_verdicts == ()
    assert stage("verify", routes=routes).asked_verdicts == VERDICTS
    assert stage("verify", routes=routes, artifact=rule).asked_verdicts == ()
