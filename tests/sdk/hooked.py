"""Runs with hooks: a compiled pipeline with hooks in its plan, and the facts about them."""

from typing import Any

from msgspec.structs import replace
from tests.sdk.projects import pipeline

from agentforge.definition.compiler import Compiled
from agentforge.model import facts as f
from agentforge.model.hook import Hook, HookAction, HookPoint
from agentforge.sdk.engine import Engine
from agentforge.views.results import RunResult


def hook(point: HookPoint, action: HookAction, id: str = "", **keys: Any) -> Hook:
    return Hook(id or f"{point}-1", point, action, **keys)


def hooked(engine: Engine, *hooks: Hook, nodes: tuple[dict[str, Any], ...] = ()) -> Compiled:
    compiled = engine.compile(pipeline(*nodes), session="s")
    info = replace(compiled.plan.pipeline, hooks=hooks)
    return replace(compiled, plan=replace(compiled.plan, pipeline=info))


async def run_hooked(
    engine: Engine, *hooks: Hook, nodes: tuple[dict[str, Any], ...] = (), **options: Any
) -> RunResult:
    return await engine.start(hooked(engine, *hooks, nodes=nodes), **options)


def hook_facts(engine: Engine, session: str = "s") -> list[f.AnyFact]:
    """The facts about hooks and effects, in order."""
    facts = [event.fact for event in engine.runs.events(session)]
    return [fact for fact in facts if fact.TYPE.startswith(("hook_", "effect_"))]


def hook_types(engine: Engine, session: str = "s") -> list[str]:
    return [fact.TYPE for fact in hook_facts(engine, session)]
