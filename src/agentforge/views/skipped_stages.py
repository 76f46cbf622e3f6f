"""What the stages that a person skips don't leave, although later ones need it."""

from collections.abc import Collection, Iterator

from agentforge.definition.schemas import fields_of, is_closed
from agentforge.model.artifact import ENGINE_KEYS
from agentforge.model.plan import Items, Plan, StageNode
from agentforge.model.result import JSONObject
from agentforge.views.artifacts import earlier_stages


def skippable(plan: Plan) -> list[str]:
    """The ids of the stages that can be skipped: not those of blocks."""
    return list(dict.fromkeys(stage.id for (_, branch), stage in plan.placed.items() if branch is None))


def lacking(plan: Plan, skipped: Collection[str], value: JSONObject) -> Iterator[tuple[str, str]]:
    """The skipped stages, each with a text of what a later one needs of it and the first artifact of the run,
    the `value`, doesn't have."""
    for (path, branch), stage in plan.placed.items():
        sources = stage.sources
        if sources is None or (branch is None and stage.id in skipped):
            continue
        earlier = [(one, own) for _, own, one in earlier_stages(plan, path, branch)]
        for field in sources.artifact:
            left = [(one, own) for one, own in earlier if _may_leave(one, field)]
            is_left = field in ENGINE_KEYS or any(own or one.id not in skipped for one, own in left)
            if left and not is_left and value.get(field) is None:
                yield left[0][0].id, f"{stage.id!r} needs the field {field!r} of its artifact"
        termination, items = stage.termination, sources.items
        maker = plan.stage(items.path) if items and not items.provider else None
        is_skipped = maker is not None and maker.id in skipped
        if maker and is_skipped and isinstance(termination, Items) and value.get(termination.field) is None:
            yield maker.id, f"{stage.id!r} needs the field {termination.field!r} of its artifact"
        for source in sources.from_stage:
            maker = None if source.provider else plan.stage(source.path)
            if maker and maker.id in skipped and not _leaves_only(maker, value):
                yield maker.id, f"{stage.id!r} has its output as an input"


def _may_leave(stage: StageNode, field: str) -> bool:
    rule = stage.artifact
    if rule is None or isinstance(stage.termination, Items):
        return rule is not None and field == stage.id
    named = fields_of(rule.schema)
    return field in named or field in rule.fill or (not named and not is_closed(rule.schema))


def _leaves_only(stage: StageNode, value: JSONObject) -> bool:
    """Whether the value has all that the artifact of the stage must have."""
    if stage.artifact is None:
        return False
    required = stage.artifact.agent_schema.get("required")
    needed = required if isinstance(required, list) else []
    if isinstance(stage.termination, Items):
        needed = [stage.id]
    return all(value.get(str(field)) is not None for field in needed)
