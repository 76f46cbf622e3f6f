"""Runs whose stages ask for approval, for tests."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tests.sdk.projects import node, pipeline, run_dir

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.definition.compiler import Compiled
from agentforge.model.event import Event
from agentforge.model.plan import Approval, ParallelNode, StageNode
from agentforge.model.request import Request
from agentforge.model.status import RunStatus
from agentforge.sdk.engine import Engine
from agentforge.views.results import RunResult


def with_approval(compiled: Compiled, asks: Approval | None = None) -> Compiled:
    """The same pipeline; all its stages, also those of blocks, ask for approval."""
    approve = asks or Approval()

    def asking(node: Any) -> Any:
        if isinstance(node, StageNode):
            return replace(node, approve=approve)
        if isinstance(node, ParallelNode):
            branches = (replace(b, stages=tuple(map(asking, b.stages))) for b in node.branches)
            return replace(node, branches=tuple(branches))
        return node

    plan = compiled.plan
    return replace(compiled, plan=replace(plan, nodes=tuple(map(asking, plan.nodes))))


async def started(
    sdk: Engine, asks: Approval | None = None, what: dict[str, Any] | None = None, **options: Any
) -> RunResult:
    compiled = sdk.compile(what or pipeline(node()), session="s")
    return await sdk.start(with_approval(compiled, asks), **options)


async def awaited(sdk: Engine, asks: Approval | None = None, what: dict[str, Any] | None = None) -> Request:
    """The approval that a new run waits for."""
    result = await started(sdk, asks, what)
    assert result.status is RunStatus.AWAITING_APPROVAL
    (request,) = result.requests
    return request


def events(project: Path, kind: str) -> list[Event]:
    """The run's events of that type."""
    log = JsonlLog(str(run_dir(project) / "events.jsonl"))
    return [event for event in log.reader().events() if kind == event.fact.TYPE]
