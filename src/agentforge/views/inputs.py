"""A stage's inputs from earlier stages: derived from the log, never from the file system."""

from typing import Any

from agentforge.model.layout import RunLayout
from agentforge.model.plan import FromParallel, InputSources, Judgment, Plan, StageNode
from agentforge.views.history import History

ENDED_BY_STOP = "plateau"
ENDED_BY_COUNT = "fixed"
ENDED_AT_MAX = "max_iterations"


def from_stage(sources: InputSources | None, history: History, layout: RunLayout) -> dict[str, list[str]]:
    """Outputs by stage id; a stage without output has an empty list."""
    found: dict[str, list[str]] = {}
    for source in sorted(sources.from_stage, key=lambda s: s.id) if sources else ():
        outputs = history.stage(source.path, source.provider).located(layout)
        latest = [outputs.latest] if outputs.latest else []
        found[source.id] = outputs.paths if source.select == "all" else latest
    return found


def from_parallel(
    sources: InputSources | None, history: History, plan: Plan, layout: RunLayout
) -> dict[str, Any] | list[dict[str, Any]]:
    """A single source, or a list if several were given or it was written as a list."""
    if sources is None or not sources.from_parallel:
        return {}
    found = [_block_outputs(source, history, plan, layout) for source in sources.from_parallel]
    return found if sources.parallel_list else found[0]


def ended_by(node: StageNode, reason: str) -> str:
    """The termination reason of a stage, as a keyword."""
    if reason == ENDED_AT_MAX:
        return ENDED_AT_MAX
    return ENDED_BY_STOP if isinstance(node.termination, Judgment) else ENDED_BY_COUNT


def _block_outputs(source: FromParallel, history: History, plan: Plan, layout: RunLayout) -> dict[str, Any]:
    step = plan.places[source.path]
    providers: dict[str, Any] = {}
    for provider in sorted(source.providers):
        node = next(stage for stage in step.branch(provider) if stage.id == source.stage)
        outputs = history.stage(step.inner_path(node), provider).located(layout)
        providers[provider] = {
            "output": outputs.latest,
            "status": outputs.status_file,
            "iterations": outputs.iterations,
            "termination_reason": ended_by(node, outputs.reason),
            "history": outputs.paths if source.select == "all" else [],
        }
    return {
        "stage": source.stage,
        "block": source.block,
        "select": "history" if source.select == "all" else "latest",
        "manifest": layout.absolute(history.manifests.get(source.path) or layout.manifest(step.dir)),
        "providers": providers,
    }
