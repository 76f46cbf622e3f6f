"""The stages and pipelines of a project: what there is, what is wrong with it, and compiling it for a run."""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from agentforge.definition.compiler import (
    INLINE,
    Compiled,
    compile_pipeline,
    compile_stage,
    compile_text,
    lint,
)
from agentforge.definition.provider_settings import merged_settings
from agentforge.definition.resolve import Available, available_pipelines, available_stages
from agentforge.model.diagnostic import Diagnostic
from agentforge.model.errors import InvalidRequest
from agentforge.model.plan import Overrides, Plan
from agentforge.ports.sources import Sources
from agentforge.sdk.wiring import known_providers, sources_of

Kind = Literal["pipeline", "stage"]
PipelineSource = str | Mapping[str, Any]
"""A file, a name, YAML text, or a mapping."""


class Linted(Struct, frozen=True):
    name: str
    kind: Kind
    diagnostics: tuple[Diagnostic, ...]

    @property
    def passed(self) -> bool:
        return not any(found.is_error for found in self.diagnostics)


class Definitions:
    def __init__(self, project: str, environ: Mapping[str, str]) -> None:
        self._project = project
        self._environ = environ
        self._sources = sources_of(project, environ)

    def stages(self) -> list[Available]:
        return available_stages(self._sources)

    def pipelines(self) -> list[Available]:
        return available_pipelines(self._sources)

    def stage_names(self) -> list[str]:
        return [stage.name for stage in self.stages()]

    def lint(self, name: str, kind: Kind) -> Linted:
        found = lint(self._sources, name, kind, known_providers=self._known_providers)
        return Linted(name, kind, tuple(found))

    @cached_property
    def _known_providers(self) -> list[str] | None:
        return known_providers(self._project, self._environ)

    def lint_all(self) -> list[Linted]:
        """Everything that lies in the project; what is built in or elsewhere is somebody else's."""
        stages = [self.lint(stage.name, "stage") for stage in self.stages() if _is_inside(stage)]
        return stages + [self.lint(found.name, "pipeline") for found in self.pipelines() if _is_inside(found)]


def _is_inside(found: Available) -> bool:
    return not found.path.startswith(("/", "../"))


class Compiler:
    """For an engine: with its project, its environment and the providers that it knows."""

    def __init__(
        self, project: str, environ: Mapping[str, str], known: Callable[[], Collection[str] | None]
    ) -> None:
        """`known`: the names of the providers that there are now, or None if every name will do."""
        self._project = project
        self._environ = environ
        self._known = known

    @property
    def sources(self) -> Sources:
        return sources_of(self._project, self._environ)

    def stage(self, stage: str, session: str, asked: Overrides) -> Compiled:
        known = self._known()
        return compile_stage(self.sources, stage, session, asked.max_iterations, asked, known_providers=known)

    def pipeline(self, pipeline: PipelineSource, session: str, asked: Overrides, passes: int) -> Compiled:
        known = self._known()
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


def source_to_compile(plan: Plan) -> str:
    """What the run's pipeline is called, for compiling it anew."""
    if plan.source.path == INLINE:
        raise InvalidRequest(
            f"the pipeline of session {plan.session.name!r} was given as text: there is no file to recompile",
            hint="give a file, resume without recompiling, or begin anew",
        )
    return plan.source.path


def merged(before: Overrides, now: Overrides) -> Overrides:
    """What was asked for when the run began, and on top of it what is asked for now."""
    return Overrides(
        provider=now.provider or before.provider,
        model=now.model or (None if now.provider else before.model),
        context=before.context if now.context is None else now.context,
        inputs=now.inputs or before.inputs,
        commands={**before.commands, **now.commands},
        max_iterations=now.max_iterations or before.max_iterations,
        config=merged_settings({} if now.provider else before.config, now.config),
    )


def default_session(pipeline: str, now: datetime) -> str:
    """The pipeline's name with the time."""
    usable = re.sub(r"[^\w-]+", "-", pipeline)[:40].strip("-") or "pipeline"
    return f"{usable}-{now:%Y%m%d-%H%M%S}"
