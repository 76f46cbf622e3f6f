"""The stages and pipelines of a project: listing, linting and drawing them."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from agentforge.app.runs.lookup import Runs, existing_project
from agentforge.app.wiring import known_providers, sources_of
from agentforge.definition.compiler import ProviderPlaces, lint
from agentforge.definition.machine import Machine, SettingsCheck
from agentforge.definition.read.file_keys import (
    pipeline_schema,
    settings_schema,
    stage_schema,
    template_schema,
)
from agentforge.definition.read.provider_settings import settings_from_pairs
from agentforge.definition.report import Report, relative
from agentforge.definition.resolve import (
    Available,
    available_pipelines,
    available_stages,
    find_pipeline,
    missing_pipeline,
    pipeline_files,
    pipeline_names,
    stage_folders,
)
from agentforge.definition.root_files import RootFiles, root_files
from agentforge.definition.settings import read_settings, refuse_unset
from agentforge.model.diagnostic import Diagnostic, Severity, SourcePlace
from agentforge.model.errors import DefinitionError, StorageFailed
from agentforge.model.layout import PROJECT_SETTINGS, SPECIFICATIONS
from agentforge.model.plan import Plan
from agentforge.system import files

if TYPE_CHECKING:
    from agentforge.legacy.migration import Migration

DefinitionKind = Literal["pipeline", "stage"]
LintKind = Literal["pipeline", "stage", "provider", "settings"]


class LintResult(Struct, frozen=True):
    name: str
    """Of a provider or of settings: the file."""
    kind: LintKind
    diagnostics: tuple[Diagnostic, ...]
    plan: Plan | None = None
    """Of a stage or pipeline without errors in its files."""
    places: ProviderPlaces = {}

    @property
    def passed(self) -> bool:
        return not any(found.is_error for found in self.diagnostics)


class Definitions:
    """The stages and pipelines of one project."""

    def __init__(
        self, project: str | os.PathLike[str] = ".", environ: Mapping[str, str] | None = None
    ) -> None:
        self._project = existing_project(project)
        self._environ = os.environ if environ is None else environ
        self._sources = sources_of(self._project, self._environ)

    def stages(self) -> list[Available]:
        return available_stages(self._sources)

    def pipelines(self) -> list[Available]:
        return available_pipelines(self._sources)

    def specifications(self) -> list[str]:
        """The ids of those that runs have left, the latest last."""
        try:
            names = files.listing(os.path.join(self._project, SPECIFICATIONS))
        except StorageFailed:
            return []
        return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))

    def stage_names(self) -> list[str]:
        return list(stage_folders(self._sources))

    def pipeline_names(self) -> list[str]:
        return sorted(pipeline_names(self._sources))

    def default_pipeline(self) -> str | None:
        """The pipeline of runs that name none, as settings say. Raises DefinitionError if it doesn't exist or
        names a variable that isn't set; compiling it reports other mistakes in settings."""
        report = Report()
        settings = read_settings(self._sources, report, is_lazy=True)
        found = settings.pipeline
        if unset := settings.unset_of("pipeline"):
            refuse_unset([unset], report)
            raise DefinitionError(report.diagnostics)
        if found and find_pipeline(self._sources, found.value) is None:
            report.error("unknown-pipeline", found.at, *missing_pipeline(self._sources, found.value))
            raise DefinitionError(report.diagnostics)
        return found.value if found else None

    def lint(
        self, name: str, kind: DefinitionKind, *, known_providers: Collection[str] | None = None
    ) -> LintResult:
        """What is wrong with the files of a stage or pipeline, and with the descriptions of its providers.
        Starts nothing; `Engine.lint` also checks what the run needs on this machine."""
        known = known_providers or self._known_providers
        return self._lint(name, kind, Machine(known_providers=known, check_settings=self._check_settings))

    def _lint(self, name: str, kind: DefinitionKind, machine: Machine) -> LintResult:
        found, compiled = lint(self._sources, name, kind, machine)
        if compiled is None:
            return LintResult(name, kind, tuple(found))
        plan, used = compiled.plan, compiled.plan.descriptions
        described = (diagnostic for one in sorted(used) for diagnostic in self._lint_described(one))
        return LintResult(name, kind, (*found, *described, *self._untrusted(used)), plan, compiled.providers)

    def lint_provider(self, name: str) -> LintResult:
        """What is wrong with the project's description of a provider."""
        return LintResult(self._described[name], "provider", self._lint_described(name))

    def _lint_described(self, name: str) -> tuple[Diagnostic, ...]:
        from agentforge.app.providers.described import read_description

        report = Report()
        if name in self._described:
            read_description(self._project, name, self._described[name], report)
        return report.diagnostics

    @cached_property
    def _described(self) -> dict[str, str]:
        from agentforge.app.providers.offers import find_described

        return find_described(self._project)

    def _untrusted(self, used: Collection[str]) -> Iterator[Diagnostic]:
        """Files that would override built-in providers: an error if the run would use one."""
        from agentforge.adapters.providers.mock import is_mock_mode
        from agentforge.app.providers.offers import untrusted, untrusted_files

        for name, file in untrusted_files(self._project, self._environ).items():
            error, at = untrusted(name, file), SourcePlace(file, 1, 1)
            severity: Severity = "error" if name in used and not is_mock_mode(self._environ) else "warning"
            yield Diagnostic("untrusted-provider", severity, error.message, at, error.hint)

    @cached_property
    def _known_providers(self) -> list[str] | None:
        return known_providers(self._project, self._environ)

    @cached_property
    def _check_settings(self) -> SettingsCheck | None:
        """Asks the providers whose code is ours; none in mock mode."""
        from agentforge.app.providers.offers import find_offers
        from agentforge.app.providers.readiness import settings_check
        from agentforge.app.providers.registry import Registry

        if self._known_providers is None:
            return None
        offers = find_offers(self._project, self._environ)
        # Loading a package runs its code, and this starts nothing.
        ours = {name: offer for name, offer in offers.items() if offer.origin != "entry point"}
        return settings_check(Registry(lambda: ours).known)

    def migration(self) -> "Migration":
        """Differences from the shell engine in all definitions and runs of the project."""
        from agentforge.legacy.migration import examine_migration

        environ = dict(self._environ)
        if self._sources.is_dir(os.path.join(self._project, "scripts", "stages")):
            environ.setdefault("AGENT_PIPELINES_ROOT", self._project)
        sources = sources_of(self._project, environ)
        known = known_providers(self._project, environ)
        return examine_migration(sources, Runs(self._project, environ), known)

    def lint_all(self) -> list[LintResult]:
        """Lint all definitions in the project folder, not built-in ones or those elsewhere."""
        found = [self.lint(name, kind) for name, kind in self.own()]
        return self.with_others(found)

    def with_others(self, found: Sequence[LintResult]) -> list[LintResult]:
        """With the providers and the settings files; what is wrong with those is said once."""
        report = Report()
        places = [one for one in PROJECT_SETTINGS if os.path.lexists(os.path.join(self._project, one))]
        read_settings(self._sources, report)
        every = dict.fromkeys((*report.diagnostics, *(one for each in found for one in each.diagnostics)))
        files = {name: tuple(one for one in every if one.place.file == name) for name in places}
        own = [replace(one, diagnostics=_elsewhere(one.diagnostics, files)) for one in found]
        providers = (self.lint_provider(name) for name in self.own_providers())
        return [*own, *providers, *(LintResult(name, "settings", said) for name, said in files.items())]

    def own(self) -> Iterator[tuple[str, DefinitionKind]]:
        """The stages and pipelines of the project: those with a name, and pipeline files in its folder."""
        stages, pipelines = stage_folders(self._sources), pipeline_files(self._sources)
        yield from ((name, "stage") for name, folder in stages.items() if self._is_inside(folder))
        yield from ((name, "pipeline") for name, path in pipelines.items() if self._is_inside(path))
        yield from ((name, "pipeline") for name in self._root_files.pipelines)

    def unread(self) -> Mapping[str, str]:
        """The YAML files in the project folder that don't look like pipelines, with the reasons: `lint_all`
        leaves them out."""
        return self._root_files.others

    @cached_property
    def _root_files(self) -> RootFiles:
        return root_files(self._sources)

    def own_providers(self) -> list[str]:
        """The providers that the project describes."""
        return sorted(self._described)

    def _is_inside(self, path: str) -> bool:
        return not relative(self._sources.project, path).startswith(("/", "../"))


def _elsewhere(diagnostics: Sequence[Diagnostic], files: Collection[str]) -> tuple[Diagnostic, ...]:
    return tuple(one for one in diagnostics if one.place.file not in files)


def schema(kind: DefinitionKind | Literal["settings", "template"]) -> dict[str, Any]:
    """The JSON Schema of a pipeline file, of a stage.yaml or of a settings file, for editors."""
    schemas = {
        "pipeline": pipeline_schema,
        "stage": stage_schema,
        "settings": settings_schema,
        "template": template_schema,
    }
    return schemas[kind]()


def provider_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Settings of a provider from `KEY=VALUE` pairs; the value is YAML, and `a.b=1` sets b within a."""
    return settings_from_pairs(pairs)
