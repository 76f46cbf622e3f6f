"""The source tree: no import cycles, no type name twice, file names that are nouns, a true map."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.source_trees import nodes_of, tree_of

SOURCE = Path(__file__).resolve().parents[2] / "src"
FILES = [path for path in (SOURCE / "agentforge").rglob("*.py") if "builtin" not in path.parts]
POINTING_UP = {"agentforge.legacy.upcaster"}
"""Modules that a lower layer may import; `pyproject.toml` has the reason."""
NOUNS_IN_ING = {"briefing", "recording", "spending", "wiring"}
SMALL_LINES = 60
ONE_EACH = (
    *("cli.commands", "ports", "adapters.providers", "runtime.tasks", "model.facts", "engine.evolve"),
    *("views.lines", "core.pipeline.stages"),
    "testing",
)
"""Packages with one file per subject of commands or facts, port, provider, stage, kind of task, part of the
kit."""
SMALL = {
    "adapters.cli_agents.pattern_search": "a program of its own",
    "adapters.host.tmux_child": "a program of its own",
    "app.pictures": "draws what two other modules know",
    "app.runs.evidence": "reads the files of the project, unlike the view that it completes",
    "app.runs.pipelines": "loaded only by what asks about pipelines",
    "app.settings_text": "changes a text, without the files",
    "cli.repaired_runs": "loaded only by commands that look at runs",
    "engine.checks.regressions": "pure, unlike the module that asks it",
    "app.runs.delivery": "what git can do, which the start of a run doesn't know",
    "views.skipped_stages": "pure, unlike the module that asks it",
}
"""Small files with one importer that are read on their own, with the reason."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@cache
def trees() -> dict[str, ast.Module]:
    """By the names of the modules."""
    return {module_of(path): tree_of(path) for path in FILES}


@cache
def imported() -> dict[str, frozenset[str]]:
    """What each module imports."""
    return {module_of(path): frozenset(imports(nodes_of(path))) for path in FILES}


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The modules of ours that a module imports anywhere, also within functions and for type checkers."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in trees() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_import_cycles_also_not_through_lazy_imports() -> None:
    refuse_cycles({name: found & trees().keys() for name, found in imported().items()})


def refuse_cycles(graph: Mapping[str, Set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def packages() -> list[str]:
    return sorted(module_of(path) for path in FILES if path.name == "__init__.py")


@pytest.mark.parametrize("package", packages())
def test_no_import_cycles_between_the_parts_of_a_package(package: str) -> None:
    """Its parts are the modules and packages directly in it, each with all that it contains."""

    def part(module: str) -> str:
        is_inside = module.startswith(f"{package}.") and module not in POINTING_UP
        return module.removeprefix(f"{package}.").partition(".")[0] if is_inside else ""

    graph = defaultdict(set)
    for name, modules in imported().items():
        if part(name):
            found = {part(module) for module in modules if module in trees()}
            graph[part(name)] |= found - {"", part(name)}
    refuse_cycles(graph)


def type_names(tree: ast.Module) -> Iterator[str]:
    """Classes, also nested ones, and the aliases of types at the top."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name):
            name = target.id.lstrip("_")
            if name[:1].isupper() and not name.isupper():
                yield target.id


def test_no_type_name_exists_twice() -> None:
    places = defaultdict(set)
    for module, tree in trees().items():
        for name in type_names(tree):
            places[name].add(module)
    assert {name: sorted(where) for name, where in places.items() if len(where) > 1} == {}


def test_module_names_are_not_gerunds() -> None:
    names = {module.rpartition(".")[2] for module in trees()}
    assert {name for name in names if name.endswith("ing")} <= NOUNS_IN_ING | {"testing"}


def test_small_files_with_one_importer_are_things_of_their_own() -> None:
    importers = defaultdict(set)
    for name, modules in imported().items():
        for found in modules:
            importers[found].add(name)
    small = {
        module_of(path).removeprefix("agentforge.")
        for path in FILES
        if path.name != "__init__.py"
        and len(importers[module_of(path)]) == 1
        and len(path.read_text(encoding="utf-8").splitlines()) <= SMALL_LINES
    }
    assert {name for name in small if not name.startswith(ONE_EACH)} == SMALL.keys()


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "AGENTS.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    missing = []
    for line in (SOURCE.parent / page).read_text(encoding="utf-8").splitlines():
        folders = [SOURCE.parent, SOURCE, SOURCE / "agentforge"]
        for named in re.findall(r"`([\w./-]+(?:\.py|/))`", line):
            found = next((folder / named for folder in reversed(folders) if (folder / named).exists()), None)
            if found is not None:
                # A name without a folder is beside the file before it, or in the folder.
                folders.append(found if found.is_dir() else found.parent)
            elif named.endswith(".py"):
                missing.append(named)
    assert missing == []
