"""The compiler's entry points: from a name, a file, a stage or a text to a Plan, or to all diagnostics."""

import re
from collections.abc import Collection, Mapping
from posixpath import dirname, join
from typing import Any, Literal

import msgspec

from agentforge.definition.compilation import Compilation, Compiled
from agentforge.definition.diagnostics import Report, choice
from agentforge.definition.resolve import find_pipeline, is_stage_name, pipeline_names
from agentforge.definition.source import SourceText, relative
from agentforge.model.diagnostic import Diagnostic, Place
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Overrides
from agentforge.ports.sources import Sources

__all__ = [
    "INLINE",
    "VERBS",
    "Compiled",
    "compile_kept",
    "compile_pipeline",
    "compile_stage",
    "compile_text",
    "lint",
]

INLINE = "<inline>"
# The words of the command line: those of agent-pipelines, and ours.
VERBS = frozenset(
    [
        "answer",
        "cancel",
        "demo",
        "doctor",
        "dry-run",
        "help",
        "lint",
        "list",
        "log",
        "loop",
        "migrate",
        "pause",
        "pipeline",
        "pipelines",
        "providers",
        "recover",
        "replay",
        "resume",
        "run",
        "runs",
        "schema",
        "stages",
        "status",
        "tail",
        "test",
        "version",
    ]
)
_NO_OVERRIDES = Overrides()
# Inside strings JSON allows these as they are; YAML doesn't, or reads them as line ends.
_NOT_ALIKE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def compile_pipeline(
    sources: Sources,
    name: str,
    session: str,
    overrides: Overrides = _NO_OVERRIDES,
    *,
    known_providers: Collection[str] | None = None,
    passes: int = 1,
) -> Compiled:
    """A pipeline by its path (relative to the project) or its name; `passes` is how often all of it runs.

    Raises DefinitionError with everything that was found, warnings included.
    """
    report = Report()
    path = find_pipeline(sources, name)
    if path is None:
        at = report.argument(name)
        hint = choice(name, "pipelines", pipeline_names(sources))
        report.error("unknown-pipeline", at, f"no pipeline file or name `{name}`", hint)
        raise DefinitionError(report.diagnostics)
    source = SourceText(relative(sources.project, path), sources.read(path) or "")
    work = Compilation(sources, session, overrides, known_providers, report)
    return work.pipeline(source, dirname(path), path, passes)


def compile_kept(
    sources: Sources, name: str, text: str, session: str, *, known_providers: Collection[str] | None = None
) -> Compiled:
    """A pipeline whose text was kept elsewhere, as if it still lay where `name` says (relative to the
    project)."""
    path = join(sources.project, name)
    work = Compilation(sources, session, _NO_OVERRIDES, known_providers, Report())
    return work.pipeline(SourceText(name, text), dirname(path), path, 1)


def compile_text(
    sources: Sources,
    pipeline: str | Mapping[str, Any],
    session: str,
    overrides: Overrides = _NO_OVERRIDES,
    *,
    known_providers: Collection[str] | None = None,
    passes: int = 1,
) -> Compiled:
    """A pipeline given as YAML text or as a mapping; its stages are looked up from the project's root."""
    report = Report()
    source = SourceText(INLINE, pipeline if isinstance(pipeline, str) else _as_text(pipeline, report))
    work = Compilation(sources, session, overrides, known_providers, report)
    return work.pipeline(source, sources.project, INLINE, passes)


def compile_stage(
    sources: Sources,
    stage: str,
    session: str,
    max_iterations: int | None = None,
    overrides: Overrides = _NO_OVERRIDES,
    *,
    known_providers: Collection[str] | None = None,
) -> Compiled:
    """A single stage as a run of its own; `max_iterations` outranks what the stage says."""
    return Compilation(sources, session, overrides, known_providers, Report()).stage(stage, max_iterations)


def lint(
    sources: Sources,
    target: str,
    kind: Literal["pipeline", "stage"] | None = None,
    *,
    known_providers: Collection[str] | None = None,
    verbs: Collection[str] = VERBS,
) -> list[Diagnostic]:
    """Everything there is to say about a pipeline or stage; empty when all is well.

    Without a kind the target is a pipeline if one is found under that name, else a stage. A stage that is
    called like one of the `verbs` can't be run by its name alone.
    """
    if kind is None:
        kind = "stage" if find_pipeline(sources, target) is None and is_stage_name(target) else "pipeline"
    try:
        if kind == "pipeline":
            compiled = compile_pipeline(sources, target, "lint", known_providers=known_providers)
        else:
            compiled = compile_stage(sources, target, "lint", known_providers=known_providers)
    except DefinitionError as error:
        return list(error.diagnostics)
    hidden = [_hidden_by_verb(compiled)] if kind == "stage" and target in verbs else []
    return [*hidden, *compiled.warnings]


def _hidden_by_verb(compiled: Compiled) -> Diagnostic:
    name = compiled.plan.nodes[0].id
    message = f"`{name}` is a command too, and commands win over stages"
    hint = f"run the stage as `loop {name}`, or rename its folder"
    return Diagnostic("hidden-by-verb", "warning", message, Place(compiled.source.file, 1, 1), hint)


def _as_text(pipeline: Mapping[str, Any], report: Report) -> str:
    """JSON is YAML too, so a mapping takes the same way as a text, with places in that form."""
    try:
        text = msgspec.json.format(msgspec.json.encode(dict(pipeline)), indent=2).decode()
        return _NOT_ALIKE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        at = report.argument(INLINE)
        report.error(
            "bad-type", at, f"the pipeline isn't plain data: {error}", "use dicts, lists and scalars"
        )
        raise DefinitionError(report.diagnostics) from error
