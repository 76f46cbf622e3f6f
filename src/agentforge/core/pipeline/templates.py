"""The pipeline types of a project: its templates and pipelines, and the built-in ones."""

import os
from collections.abc import Callable, Sequence

from agentforge import DefinitionError, Engine, InvalidRequest, Overrides, pipeline_settings
from agentforge.core.pipeline.results import PipelineConfig


class UnknownPipelineType(InvalidRequest, ValueError):
    """No template and no pipeline has this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"Unknown pipeline type: {name}", hint=f"available types: {', '.join(known)}")


class PipelineTemplateLoader:
    def __init__(
        self, project_path: str | os.PathLike[str], executors: Callable[[], Sequence[str]] = tuple
    ) -> None:
        """`executors`: the stages that the program executes, which need no folder."""
        self._project, self._executors = project_path, executors

    def load(self, pipeline_type: str) -> PipelineConfig:
        """How the pipeline is run. Raises UnknownPipelineType, and DefinitionError with all that is wrong
        with its file."""
        engine = Engine(self._project)
        overrides = Overrides(executors=tuple(self._executors()))
        try:
            plan = engine.compile(pipeline_type, overrides=overrides).plan
        except DefinitionError as error:
            self.refuse_unknown(pipeline_type, error)
            raise
        settings = pipeline_settings(plan)
        values = {name: getattr(settings, name) for name in settings.__struct_fields__}
        return PipelineConfig(**{**values, "pipeline_type": pipeline_type, "stages": list(settings.stages)})

    def refuse_unknown(self, pipeline_type: str, error: DefinitionError) -> None:
        """Raise UnknownPipelineType if that is what the error says."""
        if any(one.code == "unknown-pipeline" for one in error.diagnostics):
            raise UnknownPipelineType(pipeline_type, self.list_available_pipelines()) from error

    def list_available_pipelines(self) -> list[str]:
        return Engine(self._project).definitions.pipeline_names()
