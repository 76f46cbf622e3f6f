"""One mutation: a piece of a function, its replacement, and the tests that should catch it."""

import ast
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


def path_of(module: str, source: Path = SOURCE) -> Path:
    return source.joinpath(*module.split(".")).with_suffix(".py")


class StaleMutation(Exception):
    """The code that a mutation changes doesn't exist exactly once."""


@dataclass(frozen=True)
class Mutation:
    """Its code is found by its meaning: formatting, comments and what stands around it don't matter."""

    module: str
    """The dotted name."""
    bug: str
    place: str
    """The function, method or class with the code, such as `Class.method`; empty: the module."""
    old: str
    """An expression or statements, once in that place."""
    new: str
    tests: tuple[str, ...] = ()
    """Files, folders or `file::test`; empty: those listed in NEAR for the module."""
    equivalent: str = ""
    """Why no test can catch it; such a mutation isn't run and doesn't count."""

    @property
    def package(self) -> str:
        return PACKAGES.get(self.module) or self.module.split(".")[1]

    def path(self, source: Path = SOURCE) -> Path:
        return path_of(self.module, source)

    def mutated(self, source: Path = SOURCE) -> str:
        """The module's text with the bug."""
        return ast.unparse(ast.fix_missing_locations(self.changed(source)[0]))

    def changed(self, source: Path = SOURCE) -> tuple[ast.Module, ast.AST]:
        """The module with the bug, and its part that has it."""
        path = self.path(source)
        if not path.exists():
            raise StaleMutation(f"{self.module}: no such module")
        tree = ast.parse(path.read_text())
        scope = _scope(tree, self.place)
        if scope is None:
            raise StaleMutation(f"{self.module}, {self.bug!r}: there is no {self.place}")
        found = _find(scope, ast.parse(self.old).body)
        if len(found) != 1:
            raise StaleMutation(f"{self.module}, {self.bug!r}: its code occurs {len(found)} times, not once")
        found[0](ast.parse(self.new).body)
        return tree, scope

    def apply(self, folder: Path) -> Path:
        """Copy the source with the bug; returns the folder for PYTHONPATH."""
        source = folder / "src"
        # With the bytecode of all the other modules; files with another end are being written.
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("*.pyc.*"))
        path = self.path(source)
        path.write_text(self.mutated())
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
        return source


Replace = Callable[[list[ast.stmt]], None]


def _scope(tree: ast.AST, place: str) -> ast.AST | None:
    """The definition with this qualified name."""
    for name in filter(None, place.split(".")):
        inner = (node for node in _definitions(tree) if node.name == name)
        found = next(inner, None)
        if found is None:
            return None
        tree = found
    return tree


def _definitions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Those that are not inside another one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        else:
            yield from _definitions(node)


def _find(scope: ast.AST, old: list[ast.stmt]) -> list[Replace]:
    """How to replace each place where the statements occur; a single expression also inside a statement."""
    only = old[0].value if len(old) == 1 and isinstance(old[0], ast.Expr) else None
    wanted, expression = [ast.dump(statement) for statement in old], ast.dump(only) if only else ""
    found: list[Replace] = []
    whole: set[int] = set()
    for node in ast.walk(scope):
        for field, value in ast.iter_fields(node):
            for index, item in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(item, ast.AST) or id(item) in whole:
                    continue
                # What is of another type need not be compared, which takes long for a class or a function.
                alike = type(item) is type(old[0])
                if alike and isinstance(value, list) and _starts_with(value[index:], wanted):
                    found.append(_statements(value, index, len(wanted)))
                    whole.update(map(id, ast.iter_child_nodes(item)))
                elif type(item) is type(only) and ast.dump(item) == expression:
                    found.append(_expression(node, field, index))
    return found


def _starts_with(nodes: list[ast.AST], wanted: list[str]) -> bool:
    return [ast.dump(node) for node in nodes[: len(wanted)]] == wanted


def _expression(node: ast.AST, field: str, index: int) -> Replace:
    def replace(new: list[ast.stmt]) -> None:
        (statement,) = new
        assert isinstance(statement, ast.Expr)
        held = getattr(node, field)
        if isinstance(held, list):
            held[index] = statement.value
        else:
            setattr(node, field, statement.value)

    return replace


def _statements(body: list[ast.AST], index: int, count: int) -> Replace:
    def replace(new: list[ast.stmt]) -> None:
        body[index : index + count] = new

    return replace


PACKAGES = {
    "agentforge.adapters.cli_agents.program": "redaction",
    "agentforge.adapters.host.marked_tree": "supervisor",
    "agentforge.runtime.supervisor": "supervisor",
    "agentforge.runtime.supervision": "supervisor",
    "agentforge.runtime.attempt_folder": "supervisor",
    "agentforge.adapters.log.writer": "log",
    "agentforge.adapters.log.reader": "log",
    "agentforge.adapters.log.jsonl_file": "log",
    "agentforge.adapters.log.jsonl_log": "log",
    "agentforge.adapters.log.lease": "log",
    "agentforge.adapters.log.write_ahead": "log",
    "agentforge.system.disk": "log",
    "agentforge.model.codec": "log",
    "agentforge.adapters.sandboxes.bwrap": "sandbox",
    "agentforge.adapters.sandboxes.docker": "sandbox",
    "agentforge.adapters.sandboxes.mounts": "sandbox",
    "agentforge.runtime.tasks.call": "sandbox",
    "agentforge.tool_loop.workspace": "sandbox",
    "agentforge.model.secrets": "redaction",
    "agentforge.app.redaction": "redaction",
}
"""Modules that are reported under another name than that of their package."""


def environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
