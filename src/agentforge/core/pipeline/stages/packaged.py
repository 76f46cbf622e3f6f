"""What the executors of the built-in stages share: the prompt and the schema of the stage's folder."""

import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, ClassVar

from agentforge import StageContract, request_id_of, stage_contract
from agentforge.core.pipeline.llm_stage_executor import LLMStageExecutor
from agentforge.core.pipeline.stage_context import OutputValidation, StageContext

_VARIABLES = {
    "${BRIEFING}": "What you work with is in the context of the task.",
    "`${CTX}` (`previous`)": "the context (`previous_attempt`)",
    "${CTX}": "context",
}
"""What an agent is told by its files, a model is told in the message."""
_MESSAGE = """\
Do this for the request in the context below. You write no files and decide nothing with a result: {answer}

The answer must match this JSON Schema:

{schema}
"""


class PackagedStage(LLMStageExecutor):
    """The answer of the model is checked against the schema, and sent back once with what is wrong."""

    contract: ClassVar[StageContract]
    carried: ClassVar[tuple[str, ...]] = ()
    """Fields of its input that its artifact repeats."""
    answer: ClassVar[str] = "answer with one block of YAML, and nothing after it."
    """How the model has to answer."""

    def __init_subclass__(cls, *, folder: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if folder:
            cls.contract = stage_contract(folder)
            cls.stage_name = folder
            cls.required_input_fields = cls.contract.needs
            cls.output_fields = cls.contract.leaves

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._mismatches: list[str] = []
        """Of the latest answer."""

    # -- the model

    def get_system_prompt(self, context: StageContext) -> str:  # noqa: ARG002 - for subclasses
        prompt = self.contract.prompt
        for variable, words in _VARIABLES.items():
            prompt = prompt.replace(variable, words)
        return prompt

    def get_user_message(self, context: StageContext) -> str:
        schema = json.dumps(self.asked_schema(context), indent=2, ensure_ascii=False)
        return _MESSAGE.format(answer=self.answer, schema=schema)

    def asked_schema(self, context: StageContext) -> dict[str, Any]:
        """The schema without what isn't left to the model."""
        schema = deepcopy(self.contract.schema)
        given = {*self.given_fields(context), *self.contract.fill}
        schema["required"] = [name for name in schema["required"] if name not in given]
        schema["properties"] = {name: one for name, one in schema["properties"].items() if name not in given}
        return schema

    def parse_response(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:
        found = self.read_answer(llm_result, context)
        self._mismatches = []
        if found is None:
            return None
        artifact = self.artifact_of(found, context)
        self._mismatches = self.contract.mismatches(artifact)
        return None if self._mismatches else artifact

    def read_answer(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:  # noqa: ARG002 - for subclasses
        return self.extract_yaml_from_response(llm_result.get("response") or llm_result.get("content"))

    def _problem(self) -> str:
        return "; ".join(self._mismatches) or super()._problem()

    # -- the artifact

    def given_fields(self, context: StageContext) -> dict[str, Any]:
        """What isn't left to the model: ids, and the text of the request."""
        given = context.input_artifact
        request_id = given.get("request_id") or request_id_of(datetime.now(UTC), context.pipeline_id)
        request = given.get("original_request") or context.user_request
        return {"request_id": request_id, **({"original_request": request} if request else {})}

    def artifact_of(self, found: Mapping[str, Any], context: StageContext) -> dict[str, Any]:
        """With the defaults of the schema, what is carried on, and what isn't left to the model."""
        fields = self.contract.schema["properties"].items()
        defaults = {name: deepcopy(one["default"]) for name, one in fields if "default" in one}
        given = context.input_artifact
        carried = {name: given[name] for name in self.carried if given.get(name) is not None}
        said = {name: value for name, value in found.items() if value is not None}
        return {**defaults, **carried, **said, **self.given_fields(context)}

    def validate_output(self, artifact: dict[str, Any] | None) -> OutputValidation:
        left = super().validate_output(artifact)
        if artifact is None or not left.valid:
            return left
        errors = self.contract.mismatches(artifact)
        return OutputValidation(not errors, errors, [] if errors else self.warnings_of(artifact))

    def warnings_of(self, artifact: dict[str, Any]) -> list[str]:  # noqa: ARG002 - for subclasses
        """What is unusual about an artifact that matches the schema."""
        return []
