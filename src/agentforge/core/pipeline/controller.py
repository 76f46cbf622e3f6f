"""The controller of pipelines: from a request to what the last stage delivers. The engine does the work; this
names it as programs that embed a controller expect."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from agentforge import (
    AgentForgeError,
    AlreadyAnswered,
    DefinitionError,
    ForeignRequest,
    HookMissing,
    IllegalMove,
    InvalidRequest,
    OpenRequest,
    PipelineSource,
    Request,
    RequestClosed,
    RunActive,
    RunOptions,
    Runs,
    SyncEngine,
    UnknownRequest,
    UnknownRun,
    answer_of_resolution,
    is_pipeline_id,
    pipeline_id,
)
from agentforge.core.pipeline.escalation import (
    ApprovalResult,
    DefaultEscalationHandler,
    EscalationHandler,
    EscalationResolution,
    approval_text,
    escalation_text,
    show,
)
from agentforge.core.pipeline.executor_provider import ExecutorProvider
from agentforge.core.pipeline.registry import StageExecutorRegistry
from agentforge.core.pipeline.results import (
    PipelineConfig,
    PipelineResult,
    PipelineStatus,
    StageResult,
    StageStatus,
)
from agentforge.core.pipeline.state import PipelineState
from agentforge.core.pipeline.state_store import PipelineStateStore
from agentforge.core.pipeline.templates import PipelineTemplateLoader
from agentforge.core.pipeline.validator import ArtifactValidator, ValidationResult

__all__ = [
    "ArtifactValidator",
    "PipelineConfig",
    "PipelineController",
    "PipelineResult",
    "PipelineState",
    "PipelineStateStore",
    "PipelineStatus",
    "PipelineTemplateLoader",
    "StageExecutorRegistry",
    "StageResult",
    "StageStatus",
    "ValidationResult",
]

log = logging.getLogger("agentforge.core.pipeline")
T = TypeVar("T")

TIMED_OUT = "escalation timed out"
POLL_SECONDS = 0.1
WAITING = (PipelineStatus.PAUSED, PipelineStatus.AWAITING_APPROVAL)
_ANSWERED = (AlreadyAnswered, RequestClosed, UnknownRequest, ForeignRequest)

# The controller keeps nothing of a pipeline: each call opens an engine, asks it, and closes it. So any number
# of controllers in any number of processes may be asked at once, and the log decides who was first.
#
# A handler is asked when the run has stopped. It may block, so it runs in a thread of its own, while the log
# is watched: an answer from elsewhere ends the wait.


class PipelineController:
    def __init__(
        self,
        project_path: str | os.PathLike[str],
        escalation_handler: EscalationHandler | None = None,
        config_override: Mapping[str, Any] | None = None,
    ) -> None:
        """`escalation_handler`: asked, and waited for, when the pipeline needs a person. Without one,
        `execute` prints what is asked and returns. `config_override`: fields of `PipelineConfig`; None
        changes nothing."""
        self.project_path = Path(project_path)
        self._handler = escalation_handler
        self.escalation_handler = escalation_handler or DefaultEscalationHandler()
        self.config_override = _overrides(config_override or {})
        self.state_store = PipelineStateStore(self.project_path / ".agentforge" / "pipeline")
        self.stage_registry = StageExecutorRegistry()
        self.artifact_validator = ArtifactValidator()
        self.pipeline_templates = PipelineTemplateLoader(self.project_path, self.stage_registry.list_stages)
        self._executors = ExecutorProvider(self.stage_registry)

    # -- running

    def execute(
        self,
        user_request: str = "",
        pipeline_type: str = "implement",
        context: dict[str, Any] | None = None,
        resume_pipeline_id: str | None = None,
    ) -> PipelineResult:
        """Run a pipeline until it ends or needs a person. `context`: fields for the first stage.
        `resume_pipeline_id`: continue this one instead."""
        began = time.monotonic()
        id = resume_pipeline_id or pipeline_id(datetime.now(UTC), os.urandom(4).hex())

        def work(engine: SyncEngine) -> None:
            if resume_pipeline_id is not None:
                log.info("Resuming pipeline %s", id)
                self._resume(engine, id)
            else:
                self._start(engine, id, user_request, pipeline_type, context or {})
            self._ask_until_over(engine, id)

        try:
            self._with_engine(work)
            result = self._result(id)
        except AgentForgeError as error:
            result = self._refused(id, error)
        result.total_duration_seconds = time.monotonic() - began
        log.info("Pipeline %s: %s", id, result.status.value)
        return result

    def _start(
        self, engine: SyncEngine, id: str, request: str, pipeline_type: str, context: dict[str, Any]
    ) -> None:
        log.info("Created pipeline %s", id)
        try:
            engine.run(self._source(pipeline_type), session=id, **self._options(request, context))
        except DefinitionError as error:
            self.pipeline_templates.refuse_unknown(pipeline_type, error)
            raise

    def _options(self, request: str, context: dict[str, Any]) -> RunOptions:
        given = self.config_override
        options: RunOptions = {
            "request": request,
            "artifact": context or None,
            "supervised": given.get("supervised"),
            "exit_after": given.get("exit_after"),
            "iterate": given.get("iteration_enabled"),
            "rounds": given.get("max_iterations_per_stage"),
            "max_runtime": given.get("timeout_seconds"),
            "executors": tuple(self.stage_registry.list_stages()),
        }
        return options

    def _source(self, pipeline_type: str) -> PipelineSource:
        stages = self.config_override.get("stages")
        return {"name": pipeline_type, "stages": list(stages)} if stages is not None else pipeline_type

    def _resume(self, engine: SyncEngine, id: str) -> None:
        state = self._state(engine, id)
        if state.status in (PipelineStatus.COMPLETED, PipelineStatus.ABORTED):
            raise IllegalMove(f"Pipeline {id} is {state.status.value} and can't be resumed")
        if engine.requests(id):
            return  # It waits for a person, who is asked again.
        with suppress(RunActive):
            if engine.recover(id) is None and engine.status(id).status != "running":
                engine.resume(id)

    # -- asking

    def _ask_until_over(self, engine: SyncEngine, id: str) -> None:
        """Ask for as long as the pipeline waits for an answer that a handler gives."""
        while True:
            self._follow(engine, id)
            asked = next(iter(engine.requests(id)), None)
            if asked is None:
                return
            if self._handler is None:
                _show(engine, asked, self._artifact(engine, asked))
                return
            if not self._answered(engine, asked):
                with suppress(IllegalMove):  # It has ended at this moment.
                    engine.cancel(id, TIMED_OUT)

    def _follow(self, engine: SyncEngine, id: str) -> None:
        """Wait while another process drives the run, and continue it if its answer was not applied."""
        while True:
            info = engine.status(id)
            if info.status != "running" and not (info.answered or info.status == "interrupted"):
                return
            with suppress(RunActive):
                if info.status != "running" and engine.recover(id) is not None:
                    continue
            time.sleep(POLL_SECONDS)

    def _answered(self, engine: SyncEngine, asked: OpenRequest) -> bool:
        """Call the handler until there is an answer, its own or another; False when its time is over."""
        seconds = _wait_seconds(engine, asked, self.escalation_handler)
        deadline = None if seconds is None else time.monotonic() + seconds
        context = None if asked.request.kind in _APPROVALS else _about(engine, asked)
        said = _in_thread(lambda: self._handle(asked, context))
        is_given = False
        while _is_open(engine, asked):
            if said.done() and not is_given:
                is_given = True
                with suppress(*_ANSWERED):
                    self._give(engine, asked, said.result())
                continue
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _handle(
        self, asked: OpenRequest, context: dict[str, Any] | None
    ) -> "ApprovalResult | EscalationResolution | None":
        handler, request = self.escalation_handler, asked.request
        if context is None:
            return handler.request_approval(asked.session, asked.stage, self._pending(asked))
        return handler.wait_for_resolution(asked.session, asked.stage, request.question, context)

    def _give(
        self, engine: SyncEngine, asked: OpenRequest, said: "ApprovalResult | EscalationResolution | None"
    ) -> None:
        id, request = asked.session, asked.request
        match said:
            case None:
                return
            case ApprovalResult(approved=True):
                self._answer(engine, id, request, "approve")
            case ApprovalResult(feedback=feedback):
                answer = "reject" if "reject" in request.options else "abort"
                self._answer(engine, id, request, answer, feedback or "")
            case EscalationResolution(abort=True):
                engine.cancel(id, "User aborted after escalation")
            case EscalationResolution(context=context):
                self._answer(engine, id, request, *_resolved(request, context))

    def _answer(self, engine: SyncEngine, id: str, request: Request, answer: str, text: str = "") -> None:
        """Record the answer, and continue the run if this process can."""
        engine.answer(id, answer, request=request.id, text=text, drive=False)
        with suppress(RunActive, HookMissing):
            # A program that lacks the executors of the run only answers.
            engine.recover(id)

    # -- control from any process

    def get_status(self, pipeline_id: str) -> PipelineState | None:
        try:
            return self._with_engine(lambda engine: self._state(engine, pipeline_id))
        except AgentForgeError:
            return self.state_store.load(pipeline_id) if is_pipeline_id(pipeline_id) else None

    def list_pipelines(self, status: PipelineStatus | None = None, limit: int = 20) -> list[PipelineState]:
        """The latest first."""
        runs = Runs(self.project_path)
        here = [session for session in runs.sessions() if is_pipeline_id(session)]
        found = [state for id in here if (state := self.get_status(id)) is not None]
        known = {state.pipeline_id for state in found}
        found += [one for one in self.state_store.list(limit=limit) if one.pipeline_id not in known]
        found = [state for state in found if status is None or state.status is status]
        return sorted(found, key=lambda state: state.created_at, reverse=True)[:limit]

    def abort(self, pipeline_id: str, reason: str = "User requested") -> bool:
        """End the pipeline for good. False if it has ended, or is unknown."""

        def work(engine: SyncEngine) -> bool:
            if self._state(engine, pipeline_id).status.is_final:
                return False
            engine.cancel(pipeline_id, reason)
            return True

        return self._tried(work)

    def provide_feedback(self, pipeline_id: str, feedback: str) -> bool:
        """Record what a person says about the stage that the pipeline waits for. `execute` with its id, or
        the process that runs it, continues with that."""

        def work(engine: SyncEngine) -> bool:
            state = self._state(engine, pipeline_id)
            if state.status not in WAITING or not feedback.strip():
                return False
            asked = next(iter(engine.requests(pipeline_id)), None)
            if asked is None:
                if engine.status(pipeline_id).state.requests:
                    return False  # Another answer was first, and is not applied yet.
                engine.steer(pipeline_id, feedback)
                return True
            answer, text = _resolved(asked.request, feedback)
            engine.answer(pipeline_id, answer, request=asked.request.id, text=text, drive=False)
            return True

        return self._tried(work)

    def approve(self, pipeline_id: str) -> bool:
        """Approve the stage that the pipeline waits for. True if this answer counted. If no engine drives the
        run, it continues in this process, and this returns when it stops."""

        def work(engine: SyncEngine) -> bool:
            for asked in engine.requests(pipeline_id):
                if asked.request.kind in _APPROVALS:
                    self._answer(engine, pipeline_id, asked.request, "approve")
                    return True
            return False

        return self._tried(work)

    # -- parts

    def _tried(self, work: Callable[[SyncEngine], bool]) -> bool:
        try:
            return self._with_engine(work)
        except AgentForgeError as error:
            log.warning("%s", error)
            return False

    def _with_engine(self, work: Callable[[SyncEngine], T]) -> T:
        """`work` with an engine of its own; in a thread if this one has an event loop that is running."""

        def run() -> T:
            with SyncEngine(self.project_path, providers={"executor": self._executors}) as engine:
                return work(engine)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run()
        return _in_thread(run).result()

    def _state(self, engine: SyncEngine, id: str) -> PipelineState:
        return PipelineState.from_dict(engine.pipeline_state(id))

    def _artifact(self, engine: SyncEngine, asked: OpenRequest) -> dict[str, Any] | None:
        return self._state(engine, asked.session).pending_artifact

    def _pending(self, asked: OpenRequest) -> dict[str, Any] | None:
        state = self.get_status(asked.session)
        return state.pending_artifact if state else None

    def _result(self, id: str) -> PipelineResult:
        state = self.get_status(id)
        if state is None:
            raise UnknownRun(f"Pipeline {id} not found")
        left = dict(state.context)
        for stage in state.completed_stages:
            left |= state.stage_artifacts.get(stage, {})
        is_done = state.status is PipelineStatus.COMPLETED
        return PipelineResult(
            success=is_done,
            pipeline_id=id,
            status=state.status,
            current_stage=state.current_stage,
            deliverable=left if is_done else None,
            error=state.error,
            stages_completed=state.completed_stages,
        )

    def _refused(self, id: str, error: AgentForgeError) -> PipelineResult:
        """The pipeline was not started, or can't be continued now."""
        log.error("Pipeline %s: %s", id, error.message)
        text = _full(error)
        state = self.get_status(id) if is_pipeline_id(id) else None
        if state is None:
            return PipelineResult(False, id, PipelineStatus.FAILED, error=text)
        result = self._result(id)
        result.success, result.error = False, text
        return result


_APPROVALS = ("approval", "checkpoint")


def _overrides(given: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without what changes nothing. Raises InvalidRequest for an unknown field."""
    known = [field.name for field in fields(PipelineConfig) if field.name != "pipeline_type"]
    for name in given:
        if name not in known:
            raise InvalidRequest(
                f"config_override has no field {name!r}", hint=f"use some of: {', '.join(known)}"
            )
    return {name: value for name, value in given.items() if value is not None}


def _full(error: AgentForgeError) -> str:
    if isinstance(error, DefinitionError):
        return str(error)
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _in_thread(work: Callable[[], T]) -> "Future[T]":
    """A handler may block on a terminal for ever: its thread must not keep the program from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _is_open(engine: SyncEngine, asked: OpenRequest) -> bool:
    with suppress(AgentForgeError):
        return any(one.request.id == asked.request.id for one in engine.requests(asked.session))
    return True  # Another process is working on it at this moment.


def _wait_seconds(engine: SyncEngine, asked: OpenRequest, handler: EscalationHandler) -> float | None:
    at, plan = asked.request.at, engine.status(asked.session).plan
    node = plan.stage(at.node_path, at.provider) if at else None
    own = node.escalation_timeout if node else None
    known = [seconds for seconds in (own, handler.timeout_seconds) if seconds is not None]
    return min(known, default=None)


def _about(engine: SyncEngine, asked: OpenRequest) -> dict[str, Any]:
    request = asked.request
    return {
        "request": request.id,
        "kind": request.kind,
        "options": list(request.options),
        "resolution_file": engine.resolution_file(asked.session, request),
    }


def _show(engine: SyncEngine, asked: OpenRequest, artifact: dict[str, Any] | None) -> None:
    if asked.request.kind in _APPROVALS:
        lines = approval_text(asked.session, asked.stage, artifact)
    else:
        context = _about(engine, asked)
        lines = escalation_text(asked.session, asked.stage, asked.request.question, context)
    show(lines)


def _resolved(request: Request, context: object) -> tuple[str, str]:
    """The answer to a resolution without `abort`, and its text, as for a resolution file."""
    found = answer_of_resolution(request, {"abort": False, "context": context})
    return found or ("continue", "")
