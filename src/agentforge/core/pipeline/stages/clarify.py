"""The stage `clarify`: asks what a request leaves open, and works the answers in."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentforge.core.pipeline.results import StageResult, StageStatus
from agentforge.core.pipeline.stage_context import StageContext
from agentforge.core.pipeline.stages.intake import BLOCKING
from agentforge.core.pipeline.stages.packaged import PackagedStage

Questions = Sequence[Mapping[str, Any]]
ANSWERS = "question_answers"


class ClarifyExecutor(PackagedStage, folder="clarify"):
    """`config` may have `auto_skip_if_no_blocking_questions`, which is true by default."""

    artifact_type = "clarified_requirements"
    carried = ("priority", "keywords")
    answer = (
        "a blocking question without an answer goes into `remaining_questions`, with the priority `blocking`."
        " Answer with one block of YAML, and nothing after it."
    )

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._open: Questions = ()
        """The blocking questions that the latest answer of the model leaves."""

    def _execute(self, context: StageContext) -> StageResult:
        given = context.input_artifact
        blocking = _blocking(given.get("initial_questions"))
        if not blocking and self._skips(context):
            return StageResult(self.stage_name, StageStatus.COMPLETED, artifact=self._unchanged(context))
        if blocking and not (given.get(ANSWERS) or context.previous_feedback):
            return self._asked(context, blocking)
        result = super()._execute(context)
        return self._asked(context, self._open) if result.success and self._open else result

    def _skips(self, context: StageContext) -> bool:
        # What a person said about the requirements is never passed over.
        is_told = context.input_artifact.get(ANSWERS) or context.previous_feedback
        return not is_told and bool(self.config.get("auto_skip_if_no_blocking_questions", True))

    def _asked(self, context: StageContext, questions: Questions) -> StageResult:
        lines = [_line(one) for one in questions]
        partial = {
            "request_id": self.given_fields(context)["request_id"],
            "blocking_questions": [dict(one) for one in questions],
            "status": "awaiting_answers",
        }
        return self.escalate(context, "\n".join(["Blocking questions require answers:", *lines]), partial)

    def _unchanged(self, context: StageContext) -> dict[str, Any]:
        given = context.input_artifact
        found = {
            "clarified_requirements": given.get("original_request") or context.user_request,
            "scope_confirmed": True,
            "refined_scope": given.get("detected_scope"),
            "refined_components": given.get("detected_components"),
            "ready_for_analysis": True,
        }
        return self.artifact_of(found, context)

    def asked_schema(self, context: StageContext) -> dict[str, Any]:
        schema = super().asked_schema(context)
        question = schema["properties"]["remaining_questions"]["items"]["properties"]
        question["priority"] = {"enum": [BLOCKING, "optional"]}
        return schema

    def read_answer(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:
        found = super().read_answer(llm_result, context)
        self._open = _blocking((found or {}).get("remaining_questions"))
        if found and self._open:
            rest = [one for one in found["remaining_questions"] if one not in self._open]
            return {**found, "remaining_questions": rest, "ready_for_analysis": False}
        return found

    def warnings_of(self, artifact: dict[str, Any]) -> list[str]:
        return [] if artifact.get("ready_for_analysis", True) else ["Not ready for the analysis"]


def _blocking(questions: object) -> Questions:
    listed = questions if isinstance(questions, list) else []
    return [one for one in listed if isinstance(one, Mapping) and one.get("priority") == BLOCKING]


def _line(question: Mapping[str, Any]) -> str:
    why = question.get("context") or question.get("reason")
    return f"  - {question.get('question')}{f' (context: {why})' if why else ''}"


def create_clarify_executor(config: Mapping[str, Any] | None = None) -> ClarifyExecutor:
    return ClarifyExecutor(config)
