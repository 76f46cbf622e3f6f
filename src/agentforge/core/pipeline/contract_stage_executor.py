"""A stage that is a contract: its inputs and its artifact have other names than in the pipeline."""

from collections.abc import Mapping
from typing import Any

from agentforge.core.contracts import execute_contract
from agentforge.core.harness.minimal_context import ModelFailed
from agentforge.core.pipeline.results import StageResult, StageStatus
from agentforge.core.pipeline.stage_executor import StageContext, StageExecutor

USER_REQUEST = "user_request"
PIPELINES_OWN = ("request_id", "original_request")
"""No stage changes them."""


class ContractStageExecutor(StageExecutor):
    def __init__(
        self,
        stage_name: str,
        contract_id: str,
        input_mapping: Mapping[str, str | None] | None = None,
        output_mapping: Mapping[str, str | None] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """`input_mapping`: from inputs of the contract to fields of the artifact; None is the whole artifact,
        `user_request` also the request. `output_mapping`: from fields of what the contract returns to fields
        of the artifact; None keeps the name, or takes all fields if no field has that name. Without a
        mapping, everything is passed on. `config` may have `defaults` for inputs."""
        super().__init__(config)
        self.stage_name = self.artifact_type = stage_name
        self.contract_id = contract_id
        self.input_mapping = dict(input_mapping or {})
        self.output_mapping = dict(output_mapping or {})

    def _execute(self, context: StageContext) -> StageResult:
        inputs, missing = self._inputs(context)
        if missing:
            return self._failed(f"Contract execution failed: missing input fields: {', '.join(missing)}")
        model, settings = self._model_settings()
        try:
            result = execute_contract(
                self.contract_id,
                inputs,
                use_api=True,
                project_path=context.project_path,
                model=model,
                config=settings,
                on_usage=self._count,
            )
        except ModelFailed as error:
            if error.is_transient:
                raise
            return self._failed(f"Contract execution failed: {error}")
        missing = [name for name, target in self.output_mapping.items() if target and name not in result]
        if missing:
            return self._failed(f"Contract execution failed: missing output fields: {', '.join(missing)}")
        own = {key: context.input_artifact[key] for key in PIPELINES_OWN if key in context.input_artifact}
        artifact = {**context.input_artifact, **self._outputs(result), **own}
        return StageResult(self.stage_name, StageStatus.COMPLETED, artifact=artifact)

    def _inputs(self, context: StageContext) -> tuple[dict[str, Any], list[str]]:
        """The inputs, and the fields that they lack."""
        given = {USER_REQUEST: context.user_request, **context.input_artifact}
        inputs: dict[str, Any] = dict(self.config.get("defaults") or {})
        missing = []
        for name, field in (self.input_mapping or {field: field for field in given}).items():
            if field is None:
                inputs[name] = context.input_artifact
            elif given.get(field) is not None:
                inputs[name] = given[field]
            elif name not in inputs:
                missing.append(field)
        if context.previous_feedback:
            inputs |= {"feedback": context.previous_feedback, "previous_attempt": context.previous_attempt}
        return inputs, missing if self.input_mapping else []

    def _outputs(self, result: dict[str, Any]) -> dict[str, Any]:
        if not self.output_mapping:
            return result
        found: dict[str, Any] = {}
        for name, target in self.output_mapping.items():
            found |= {target or name: result[name]} if name in result else result
        return found
