"""The files of the view `controller`: the state of a pipeline, the artifacts of its stages, and its
specifications. A selection of the record; nothing reads them back into a run."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from msgspec import Struct

from agentforge.model.artifact import is_of_engine
from agentforge.model.plan import END, PASS, Plan, StageNode
from agentforge.model.request import APPROVE, Request
from agentforge.model.result import JSONObject
from agentforge.model.state import RunState, StageState
from agentforge.model.status import FINAL, RunStatus
from agentforge.views.artifacts import ReadArtifact, RunKeys, run_keys
from agentforge.views.record import RunRecord
from agentforge.views.work import IterationWork

SPEC_ID = "spec_id"
"""An artifact with this key is also kept as a specification, under its value."""
APPROVALS = ("approval", "checkpoint")
ARTIFACT_VERSION = "1.0"


class PipelineSettings(Struct, frozen=True):
    """How a pipeline runs, in the words of its state file."""

    pipeline_type: str
    stages: tuple[str, ...]
    exit_after: str | None
    supervised: bool
    """Whether a person approves each stage."""
    iteration_enabled: bool
    """Whether a rejection with feedback runs the stage again."""
    max_iterations_per_stage: int
    timeout_seconds: int


DEFAULT_TIMEOUT = 3600
"""Said of a pipeline without a runtime limit."""
DEFAULT_ROUNDS = 3


def pipeline_settings(plan: Plan) -> PipelineSettings:
    stages = [node for node in plan.nodes if isinstance(node, StageNode)]
    approvals = [node.approve for node in stages if node.approve]
    how = approvals or [one for one in (plan.pipeline.supervision,) if one]
    ends = (node.id for node in stages[:-1] if any(_ends(node)))
    guardrails = plan.pipeline.guardrails
    seconds = guardrails.max_runtime_seconds if guardrails else None
    return PipelineSettings(
        plan.pipeline.name,
        tuple(node.id for node in plan.nodes),
        next(ends, None),
        bool(stages) and len(approvals) == len(stages),
        all(approval.feedback for approval in how),
        max((approval.rounds for approval in how), default=DEFAULT_ROUNDS),
        DEFAULT_TIMEOUT if seconds is None else round(seconds),
    )


def _ends(node: StageNode) -> Iterator[bool]:
    return (route.verdict == PASS and route.action == END for route in node.routes)


class PipelineArtifact(Struct, frozen=True):
    """The artifact of one visit of a stage."""

    file: str
    """`00-intake.yaml`; of an earlier visit `00-intake.it0.yaml`."""
    content: dict[str, Any]
    spec_id: str = ""


class PipelineView:
    """What the files say of a run, as of the last event of its record."""

    def __init__(self, record: RunRecord, read: ReadArtifact) -> None:
        """`read` may raise UnusableFile for an artifact that was changed."""
        plan, state = record.model.plan, record.model.state
        # The first event has both.
        assert plan is not None
        assert state is not None
        self._record, self._read = record, read
        self.plan: Plan = plan
        self.state: RunState = state

    @property
    def is_over(self) -> bool:
        return self.state.status in FINAL or self.state.status is RunStatus.FAILED

    @property
    def status(self) -> str:
        """A question and an escalation pause the pipeline; only approvals are awaited."""
        if self.state.status is RunStatus.AWAITING_APPROVAL and self._approval is None:
            return "paused"
        return self.state.status.value

    def document(self) -> dict[str, Any]:
        """The state file."""
        state, current = self.state, self._current
        settings, visits = pipeline_settings(self.plan), self._visits
        completed = [stage for stage in self.completed if stage != current]
        pending = self._approval is not None and current is not None
        stages = settings.stages
        tokens = state.spending.input_tokens + state.spending.output_tokens
        return {
            "pipeline_id": state.session,
            "pipeline_type": settings.pipeline_type,
            "config": {**_plain(settings), "stages": list(stages)},
            "user_request": state.user_request.text if state.user_request else "",
            "context": self._context(),
            "status": self.status,
            "current_stage_index": stages.index(current) if current in stages else len(completed),
            "current_stage": current,
            "error": self.error,
            "completed_stages": completed,
            "approved_stages": self._approved,
            "stage_artifacts": {stage: self.artifact(stage) for stage in completed if self._latest(stage)},
            "iteration_count": {stage: visit - 1 for stage, visit in visits.items() if visit > 1},
            "pending_feedback": self._feedback,
            "pending_artifact": self.artifact(current) if pending and current else None,
            "created_at": state.started_at.isoformat(),
            "updated_at": state.updated_at.isoformat(),
            "completed_at": state.updated_at.isoformat() if self.is_over else None,
            "total_tokens_used": tokens,
            "total_cost_usd": state.spending.cost_usd,
        }

    @property
    def error(self) -> str | None:
        state = self.state
        if state.failure is not None:
            at = state.at if isinstance(state.at, StageState) else None
            failures = len(at.iteration.failures) if at and at.iteration else 0
            message = state.failure.message
            return message if failures < 2 else f"Stage failed after {failures} attempts: {message}"
        if state.status is RunStatus.ABORTED:
            return state.completion_reason or (state.stop.reason if state.stop else None)
        return None

    @property
    def completed(self) -> list[str]:
        """The stages that were run to their end, or skipped by a person, in the order of the plan."""
        done = {record.path for record in self.state.stages}
        return [node.id for node in self.plan.nodes if node.path in done]

    def artifact(self, stage: str) -> JSONObject | None:
        """The latest of the stage, with what the engine adds."""
        work = self._latest(stage)
        return self._complete(work) if work else None

    def artifacts(self) -> Iterator[PipelineArtifact]:
        """Of each visit, the latest."""
        latest = {(work.path, work.visit): work for work in self._works}
        visits = self._visits
        for (path, visit), work in latest.items():
            index, name = self._index(path), work.stage
            suffix = "" if visit == visits.get(name, visit) else f".it{visit - 1}"
            content = self._complete(work)
            spec = content.get(SPEC_ID)
            yield PipelineArtifact(
                f"{index:02d}-{name}{suffix}.yaml",
                {"_artifact_meta": self._meta(work), **content, "_metadata": self._metadata(work)},
                spec if isinstance(spec, str) and not suffix else "",
            )

    # -- parts

    @cached_property
    def _works(self) -> list[IterationWork]:
        """The iterations with an artifact of the stages of the pipeline itself."""
        paths = {node.path for node in self.plan.nodes}
        return [w for w in self._record.iterations if w.artifact and w.path in paths and not w.item]

    @property
    def _visits(self) -> dict[str, int]:
        """The number of the latest visit of each stage that was entered."""
        return {visit.stage: visit.visit for visit in self._record.visits}

    def _latest(self, stage: str) -> IterationWork | None:
        return next((work for work in reversed(self._works) if work.stage == stage), None)

    def _index(self, path: str) -> int:
        return next((i for i, node in enumerate(self.plan.nodes) if node.path == path), 0)

    @cached_property
    def _keys(self) -> RunKeys:
        return run_keys(self.state.started_at, self.state.run_id, self.state.user_request)

    def _complete(self, work: IterationWork) -> JSONObject:
        assert work.artifact is not None
        node = self.plan.stage(work.path)
        filled = self._keys.filled(node.artifact if node else None, work.stage)
        return {**self._keys.values, **self._read(work.artifact), **filled}

    def _meta(self, work: IterationWork) -> dict[str, Any]:
        assert work.artifact is not None
        node = self.plan.stage(work.path)
        title = node.artifact.schema.get("title") if node and node.artifact else None
        return {
            "stage_name": work.stage,
            "artifact_type": title if isinstance(title, str) else work.stage,
            "version": work.artifact.version or ARTIFACT_VERSION,
            "created_at": (work.ended_at or work.started_at).isoformat(),
        }

    def _metadata(self, work: IterationWork) -> dict[str, Any]:
        return {
            "pipeline_id": self.state.session,
            "iteration": work.visit - 1,
            "tokens_used": work.spending.input_tokens + work.spending.output_tokens,
            "duration_seconds": work.duration_seconds or 0.0,
        }

    def _context(self) -> JSONObject:
        """What the run was started with."""
        initial = self._record.model.history.initial
        given = self._read(initial) if initial else {}
        return {key: value for key, value in given.items() if not is_of_engine(key)}

    @property
    def _current(self) -> str | None:
        at = self.state.at
        if self.state.status in FINAL or not hasattr(at, "path"):
            return None
        return next((node.id for node in self.plan.nodes if node.path == at.path.partition(".")[0]), None)

    @property
    def _approval(self) -> Request | None:
        return next((one for one in self.state.open_requests if one.kind in APPROVALS), None)

    @property
    def _approved(self) -> list[str]:
        found: dict[str, None] = {}
        for request in self._record.requests.values():
            node = self.plan.stage(request.at.node_path) if request.at else None
            if node and request.kind == "approval" and request.answer == APPROVE:
                found[node.id] = None
        return list(found)

    @property
    def _feedback(self) -> str | None:
        """That of a rejection whose next visit has not begun."""
        at = self.state.at
        return at.rejected.text if isinstance(at, StageState) and at.rejected else None


def _plain(settings: PipelineSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}
