"""A world of texts for the compiler: the sources port over a dict, and short ways to compile in it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import takewhile
from posixpath import join, normpath, splitext
from typing import Any, Literal

from agentforge.definition.compiler import Compiled, compile_pipeline, lint
from agentforge.definition.machine import Machine
from agentforge.definition.resolve import find_pipeline, is_stage_name
from agentforge.model.diagnostic import Diagnostic
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Overrides, Plan, StageNode
from agentforge.ports.sources import MAX_INPUTS, MAX_SOURCE_BYTES, SchemaProblem, Sources
from agentforge.system.schemas import InvalidSchema, JsonSchema

PROJECT = "/project"
BUILTIN = "/builtin"
NOW = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)


class TextWorld:
    """Files by path; relative ones lie in the project."""

    def __init__(self, files: Mapping[str, str] | None = None, **environment: str) -> None:
        self.files = {join(PROJECT, path): text for path, text in (files or {}).items()}
        self.links: dict[str, str] = {}
        self._environment = environment

    @property
    def project(self) -> str:
        return PROJECT

    @property
    def environment(self) -> Mapping[str, str]:
        return self._environment

    @property
    def builtin(self) -> str:
        return BUILTIN

    def read(self, path: str) -> str | None:
        text = self.files.get(path)
        return None if text is None else text[: MAX_SOURCE_BYTES + 1]

    def is_dir(self, path: str) -> bool:
        return any(name.startswith(path + "/") for name in self.files)

    def listing(self, path: str) -> Sequence[str]:
        inside = (name.removeprefix(path + "/") for name in self.files if name.startswith(path + "/"))
        return sorted({name.split("/")[0] for name in inside})

    def expand(self, pattern: str) -> Sequence[str] | None:
        path = normpath(join(PROJECT, pattern))
        below = (name for name in self.files if name.startswith(path + "/"))
        texts = (name for name in below if splitext(name)[1] in (".md", ".yaml", ".json", ".txt"))
        named = (name for name in self.files if _matches(name.split("/"), path.split("/")))
        found = [path] if path in self.files else sorted({*texts, *named})
        return found if len(found) <= MAX_INPUTS else None

    def resolve(self, path: str) -> str | None:
        place = self.links.get(path, path)
        return place if place == PROJECT or place in self.files or self.is_dir(place) else None

    def schema_problem(self, schema: Any) -> SchemaProblem | None:
        try:
            JsonSchema(schema)
        except InvalidSchema as error:
            return SchemaProblem(error.message, error.path)
        return None

    def now(self) -> datetime:
        return NOW


def _matches(steps: Sequence[str], pattern: Sequence[str]) -> bool:
    """As in a shell: `*` matches no slash and no leading dot, `**` any number of folders."""
    if not steps or not pattern:
        return not steps and not pattern
    if pattern[0] == "**":
        depths = takewhile(lambda depth: not any(map(_is_hidden, steps[:depth])), range(len(steps)))
        return any(_matches(steps[depth:], pattern[1:] or ["*"]) for depth in depths)
    is_named = fnmatchcase(steps[0], pattern[0]) and _is_hidden(steps[0]) <= _is_hidden(pattern[0])
    return is_named and _matches(steps[1:], pattern[1:])


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def stage(name: str = "s", body: str = "", root: str = ".claude/stages") -> dict[str, str]:
    return {f"{root}/{name}/stage.yaml": f"name: {name}\n{body}", f"{root}/{name}/prompt.md": "do it"}


def compiled(text: str, files: Mapping[str, str] | None = None, **environment: str) -> Compiled:
    world = TextWorld({"p.yaml": text, **stage(), **(files or {})}, **environment)
    return compile_pipeline(world, "p.yaml", "session")


def plan(text: str, files: Mapping[str, str] | None = None, **environment: str) -> Plan:
    return compiled(text, files, **environment).plan


def only_node(text: str, files: Mapping[str, str] | None = None, **environment: str) -> StageNode:
    return plan(text, files, **environment).only_stage


def found(
    text: str,
    files: Mapping[str, str] | None = None,
    known_providers: Sequence[str] | None = None,
    overrides: Overrides | None = None,
    passes: int = 1,
    **environment: str,
) -> list[Diagnostic]:
    """Everything that the compiler has to say about a pipeline."""
    world = TextWorld({"p.yaml": text, **stage(), **(files or {})}, **environment)
    try:
        result = compile_pipeline(
            world,
            "p.yaml",
            "session",
            overrides or Overrides(),
            Machine(known_providers=known_providers),
            passes=passes,
        )
    except DefinitionError as error:
        return list(error.diagnostics)
    return list(result.warnings)


def found_inline(text: str) -> list[Diagnostic]:
    try:
        return list(compile_pipeline(TextWorld(stage()), text, "session").warnings)
    except DefinitionError as error:
        return list(error.diagnostics)


def linted(
    sources: Sources,
    target: str,
    kind: Literal["pipeline", "stage"] | None = None,
    *,
    known_providers: Collection[str] | None = None,
) -> list[Diagnostic]:
    """All diagnostics; without a kind, of the pipeline of that name, else of the stage."""
    is_stage = find_pipeline(sources, target) is None and is_stage_name(target)
    machine = Machine(known_providers=known_providers)
    return lint(sources, target, kind or ("stage" if is_stage else "pipeline"), machine)[0]


def where(diagnostic: Diagnostic) -> str:
    """`code line:col`, short enough for a table."""
    return f"{diagnostic.code} {diagnostic.place.line}:{diagnostic.place.col}"
