"""A project with a pipeline of three stages whose executors are objects of the test."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from agentforge.core.pipeline import (
    ApprovalResult,
    EscalationHandler,
    EscalationResolution,
    PipelineController,
    StageContext,
    StageExecutor,
    StageResult,
    StageStatus,
)

STAGES = ("a", "b", "c")
TYPE = "simple"

Work = Callable[[StageContext], StageResult]


class Recorded(StageExecutor):
    """Does what the test says, and remembers with what it was called."""

    def __init__(self, name: str, work: Work | None = None) -> None:
        super().__init__()
        self.stage_name = name
        self.contexts: list[StageContext] = []
        self._work = work

    def _execute(self, context: StageContext) -> StageResult:
        self.contexts.append(context)
        return self._work(context) if self._work else done(self.stage_name, **{self.stage_name: "done"})


def done(stage: str, **artifact: Any) -> StageResult:
    return StageResult(stage, StageStatus.COMPLETED, artifact=artifact)


class Handler(EscalationHandler):
    """Gives the answers of a list, one after the other."""

    timeout_seconds = 60

    def __init__(self, *answers: ApprovalResult | EscalationResolution) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    def wait_for_resolution(
        self, pipeline_id: str, stage: str, issue: str, context: dict[str, Any] | None = None
    ) -> EscalationResolution | None:
        self.asked.append((stage, issue))
        answer = self.answers.pop(0)
        assert isinstance(answer, EscalationResolution)
        return answer

    def request_approval(
        self, pipeline_id: str, stage: str, artifact: dict[str, Any] | None
    ) -> ApprovalResult | None:
        self.asked.append((stage, str(artifact and artifact.get(stage))))
        answer = self.answers.pop(0)
        assert isinstance(answer, ApprovalResult)
        return answer


class Silent(EscalationHandler):
    """Never answers."""

    def __init__(self, seconds: float) -> None:
        self.timeout_seconds = seconds
        self.is_asked = threading.Event()

    def wait_for_resolution(self, *_: Any, **__: Any) -> None:
        self.is_asked.set()

    def request_approval(self, *_: Any, **__: Any) -> None:
        self.is_asked.set()


def define(project: Path, stages: Sequence[str] = STAGES, type: str = TYPE, **keys: Any) -> None:
    """A pipeline of the project; `keys` are those at its top."""
    folder = project / ".claude" / "pipelines"
    folder.mkdir(parents=True, exist_ok=True)
    nodes = [{"id": name, "stage": name, "retry": {"initial_delay": 0}} for name in stages]
    views = ["escalations", "controller"]
    content = {"name": type, "request": "required", "views": views, **keys, "nodes": nodes}
    (folder / f"{type}.yaml").write_text(yaml.safe_dump(content))


def controller(
    project: Path, *executors: StageExecutor, handler: EscalationHandler | None = None, **override: Any
) -> PipelineController:
    """With these executors, and recorded ones for the other stages."""
    if not (project / ".claude" / "pipelines" / f"{TYPE}.yaml").exists():
        define(project)
    made = PipelineController(project, handler, override)
    for name in STAGES:
        made.stage_registry.register(name, Recorded(name))
    for executor in executors:
        made.stage_registry.register(executor.stage_name, executor)
    return made
