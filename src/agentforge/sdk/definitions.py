"""The stages and pipelines of a project: what there is, and everything that is wrong with it."""

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct

from agentforge.definition.compiler import lint
from agentforge.definition.resolve import Available, available_pipelines, available_stages
from agentforge.model.diagnostic import Diagnostic
from agentforge.sdk.wiring import known_providers, sources_of

Kind = Literal["pipeline", "stage"]


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
