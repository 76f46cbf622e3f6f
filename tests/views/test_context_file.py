"""context.json's values: which progress file, which limits, whose commands."""

from tests.engine.plans import plan_of, stage

from agentforge.model.layout import RunLayout
from agentforge.model.place import Place
from agentforge.model.plan import Plan
from agentforge.model.task import PrepareTask
from agentforge.views.files.context import ContextFile, context_file
from agentforge.views.history import History

LAYOUT = RunLayout.of("/project", "auth")


def context_of(plan: Plan, place: Place, number: int, remaining: float | None) -> ContextFile:
    node = plan.stage(place.path)
    assert node is not None
    task = PrepareTask(place, node.id, number, node=node, remaining=remaining)
    return context_file(task, plan, LAYOUT, History())


def test_context_of_a_pipeline_stage() -> None:
    plan = plan_of(stage("plan", runs=7, commands={"test": "pytest"}))
    context = context_of(plan, Place("0", 1, "stage-00-plan"), 3, 61.9)
    assert (context.session, context.pipeline, context.iteration) == ("auth", "refine", 3)
    assert context.paths.progress == f"{LAYOUT.root}/stage-00-plan/progress.md"
    assert (context.limits.max_iterations, context.limits.remaining_seconds) == (7, 61)
    assert context.commands == {"test": "pytest"}
    assert context.parallel_scope is None


def test_context_of_a_single_stage_run_without_a_limit() -> None:
    plan = plan_of(stage("work", ref="ralph"), mode="loop", passes=2)
    context = context_of(plan, Place("0", 2, "stage-00-work/run-002"), 1, None)
    assert (context.pipeline, context.stage.template) == ("loop", "ralph")
    assert context.paths.progress == f"{LAYOUT.root}/progress-auth.md"
    assert context.paths.output == f"{LAYOUT.root}/stage-00-work/run-002/iterations/001/output.md"
    assert context.limits.remaining_seconds == -1
