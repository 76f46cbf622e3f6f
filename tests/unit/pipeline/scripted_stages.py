"""The executors of the built-in stages, with answers in place of a model."""

import json
from collections.abc import Sequence
from typing import Any, Self

from agentforge.core.pipeline import StageContext
from agentforge.core.pipeline.stages.analyze import AnalyzeExecutor
from agentforge.core.pipeline.stages.clarify import ClarifyExecutor
from agentforge.core.pipeline.stages.intake import IntakeExecutor
from agentforge.core.pipeline.stages.spec import SpecExecutor


class Scripted:
    """Answers in place of a model; the last answer is repeated."""

    def answers(self, *replies: str | dict[str, Any]) -> Self:
        self._replies = list(replies)
        self.asked: list[str] = []
        return self

    def _run_with_llm(
        self, context: StageContext, system_prompt: str, user_message: str, tools: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        self.answered_with = json.dumps(context.input_artifact.get("question_answers"))
        self.asked.append(f"{system_prompt}\n\n{user_message}")
        self.tools_given = [one["name"] for one in tools or ()]
        reply = self._replies[min(len(self.asked), len(self._replies)) - 1]
        if isinstance(reply, dict):
            return {"response": "Done.", "tool_results": [{"tool_name": "submit_analysis", "input": reply}]}
        return {"response": reply, "tool_results": []}


class Intake(Scripted, IntakeExecutor):
    pass


class Clarify(Scripted, ClarifyExecutor):
    pass


class Analyze(Scripted, AnalyzeExecutor):
    pass


class Spec(Scripted, SpecExecutor):
    pass


def yaml_of(**fields: Any) -> str:
    return f"Here it is:\n```yaml\n{json.dumps(fields)}\n```\n"
