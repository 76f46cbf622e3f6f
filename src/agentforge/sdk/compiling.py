"""Compiling for an engine: with its project, its environment and the providers that it knows."""

from collections.abc import Mapping
from typing import Any

from agentforge.definition.compiler import Compiled, compile_pipeline, compile_stage, compile_text
from agentforge.model.plan import Overrides, Plan
from agentforge.ports.sources import Sources
from agentforge.sdk.recompiling import merged, source_to_compile
from agentforge.sdk.registry import Registry
from agentforge.sdk.wiring import sources_of

PipelineSource = str | Mapping[str, Any]
"""A file, a name, YAML text, or a mapping."""


class Compiling:
    def __init__(
        self, project: str, environ: Mapping[str, str], registry: Registry, *, is_mock: bool
    ) -> None:
        self._project = project
        self._environ = environ
        self._registry = registry
        self._is_mock = is_mock

    @property
    def sources(self) -> Sources:
        return sources_of(self._project, self._environ)

    def stage(self, stage: str, session: str, asked: Overrides) -> Compiled:
        known = self.known_providers
        return compile_stage(self.sources, stage, session, asked.max_iterations, asked, known_providers=known)

    def pipeline(self, pipeline: PipelineSource, session: str, asked: Overrides, passes: int) -> Compiled:
        known = self.known_providers
        if isinstance(pipeline, str) and "\n" not in pipeline:
            return compile_pipeline(
                self.sources, pipeline, session, asked, known_providers=known, passes=passes
            )
        return compile_text(self.sources, pipeline, session, asked, known_providers=known, passes=passes)

    def anew(
        self, plan: Plan, pipeline: PipelineSource | None, asked: Overrides, passes: int | None
    ) -> Compiled:
        """What a plan was compiled from, as it is now; what was asked for then still holds."""
        both = merged(plan.pipeline.overrides, asked)
        if plan.mode == "loop":
            return self.stage(plan.only_stage.stage, plan.session.name, both)
        source = source_to_compile(plan) if pipeline is None else pipeline
        return self.pipeline(source, plan.session.name, both, passes or plan.passes)

    @property
    def known_providers(self) -> list[str] | None:
        """In mock mode every name is played by the mock."""
        return None if self._is_mock else self._registry.names
