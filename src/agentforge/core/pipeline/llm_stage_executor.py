"""Stages whose work is one task for a model: from two prompts to an artifact in its answer."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from agentforge.core.harness.minimal_context import DEFAULT_MODEL, ModelFailed, quoted
from agentforge.core.harness.replies import json_in, yaml_in
from agentforge.core.pipeline.results import StageResult, StageStatus
from agentforge.core.pipeline.stage_executor import StageContext, StageExecutor

_HEALING = """\
{message}

Your previous answer can't be used: {problem}.

{answer}

Answer again, without this mistake.
"""


class LLMStageExecutor(StageExecutor):
    """A subclass writes the prompts and reads the answer. One that can't be read is sent back once."""

    model: str = DEFAULT_MODEL
    """The default is replaced by that of the project's settings; a subclass's own, and `llm: {model: …}` of
    the stage, are used before both."""
    max_tokens: int = 8000
    """Of each answer."""
    temperature: float = 0.7
    tools: Sequence[Mapping[str, Any]] = ()

    def _execute(self, context: StageContext) -> StageResult:
        system, message = self.get_system_prompt(context), self.get_user_message(context)
        try:
            reply = self._ask(context, system, message)
            artifact = self.parse_response(reply, context)
            if not _is_usable(artifact):
                said = _HEALING.format(message=message, problem=self._problem(), answer=quoted(_text(reply)))
                artifact = self.parse_response(self._ask(context, system, said), context)
        except Exception as error:
            if isinstance(error, ModelFailed) and not error.is_transient:
                return self._failed(f"LLM execution failed: {error}")
            error.add_note("LLM execution failed")
            raise
        if not _is_usable(artifact):
            return self._failed(f"Failed to parse LLM response into artifact: {self._problem()}")
        return StageResult(self.stage_name, StageStatus.COMPLETED, artifact=artifact)

    def _ask(self, context: StageContext, system: str, message: str) -> dict[str, Any]:
        return self._run_with_llm(context, system, message, self._offered_tools() or None)

    def _offered_tools(self) -> list[Mapping[str, Any]]:
        return list(self.tools)

    def _problem(self) -> str:
        return "no mapping could be read from it"

    def _model_settings(self) -> tuple[str, dict[str, Any]]:
        model, config = super()._model_settings()
        own = self.model if self.model != DEFAULT_MODEL else ""
        ours = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        return model or own, {**ours, **config}

    @abstractmethod
    def get_system_prompt(self, context: StageContext) -> str:
        """The instructions."""

    @abstractmethod
    def get_user_message(self, context: StageContext) -> str:
        """The task; the input of the stage and any feedback are added to it."""

    @abstractmethod
    def parse_response(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:
        """The artifact, or None if the answer has none. `llm_result`: see
        `MinimalContextExecutor.execute_task`."""

    def extract_yaml_from_response(self, response_text: str | None) -> dict[str, Any] | None:
        return yaml_in(response_text)

    def extract_json_from_response(self, response_text: str | None) -> dict[str, Any] | None:
        return json_in(response_text)


class ToolBasedStageExecutor(LLMStageExecutor):
    """The model passes the artifact to a tool, whose first valid call ends the task."""

    artifact_tool_name: str = "complete"

    def parse_response(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:  # noqa: ARG002 - for subclasses
        """The input of the last valid call."""
        inputs = (
            call.get("input")
            for call in reversed(llm_result.get("tool_results") or [])
            if self._is_valid(call)
        )
        return next(filter(_is_usable, inputs), None) or llm_result.get("final_artifact")

    def _is_valid(self, call: Mapping[str, Any]) -> bool:
        return call.get("tool_name") == self.artifact_tool_name and not str(call.get("result")).startswith(
            "error:"
        )

    def _offered_tools(self) -> list[Mapping[str, Any]]:
        named = [one for one in self.tools if one.get("name") == self.artifact_tool_name]
        others = [one for one in self.tools if one not in named]
        submit = (
            named[-1] if named else {"name": self.artifact_tool_name, "description": "Submit the result."}
        )
        return [*others, {**submit, "ends": True}]

    def _problem(self) -> str:
        return f"the tool `{self.artifact_tool_name}` was not called with a result"


def _is_usable(artifact: object) -> bool:
    return isinstance(artifact, dict) and bool(artifact)


def _text(reply: Mapping[str, Any]) -> str:
    return str(reply.get("response") or reply.get("content") or "")
