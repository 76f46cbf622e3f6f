"""The tree of a project with and without git: the first one, and one of unchanged files; and keeping it."""

import os
import subprocess
from collections.abc import Callable
from itertools import count as numbers
from pathlib import Path
from time import perf_counter

from agentforge.adapters.host.git_trees import GitTrees
from agentforge.adapters.host.tree_scan import FolderTrees, ScannedTrees
from agentforge.model.secrets import Redactor
from agentforge.ports.host import NoTree, TakenTree
from bench import floors
from bench.measure import Measure, beside

STATUS = "(e) git status of the same files"


def trees(root: Path, count: int, rounds: int) -> list[Measure]:
    project = _repository(root / "tracked", count)
    environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(root)}
    made = numbers()

    def of_git() -> GitTrees:
        return GitTrees(str(project), str(root / f"trees-{next(made)}"), environ, Redactor(()))

    def of_new_engine() -> GitTrees:
        """In a project that another engine of the run has seen."""
        folder, known = root / "trees-known", root / "known"
        return GitTrees(str(project), str(folder), environ, Redactor(()), known=str(known))

    def of_folder() -> FolderTrees:
        return FolderTrees(str(project), str(root / f"trees-{next(made)}"), Redactor(()))

    name = f"tree of {count:,} files"
    return [
        *_taken(name, of_git, project, rounds),
        _by_new_engine(name, of_new_engine, project, rounds),
        _kept(f"{name}, one changed, kept", of_git(), project, rounds),
        *_taken(f"{name}, without git", of_folder, project, rounds),
    ]


def _taken(name: str, fresh: Callable[[], ScannedTrees], project: Path, rounds: int) -> list[Measure]:
    known = fresh()
    _take(known)
    first, first_floor = _rounds(lambda: _timed(fresh()), project, max(2, rounds // 4))
    again, again_floor = _rounds(lambda: _timed(known), project, rounds)
    return [
        beside(f"{name}, first", "ms", first, STATUS, first_floor),
        beside(f"{name}, unchanged", "ms", again, STATUS, again_floor),
    ]


def _by_new_engine(name: str, engine: Callable[[], GitTrees], project: Path, rounds: int) -> Measure:
    _take(engine())
    spent, floor = _rounds(lambda: _timed(engine()), project, rounds)
    return beside(f"{name}, unchanged, new engine", "ms", spent, STATUS, floor)


def _kept(name: str, trees: GitTrees, project: Path, rounds: int) -> Measure:
    """Taken and kept as a reference, after one file has changed."""
    changed = next(project.glob("d*/e*/*.py"))
    number = numbers()

    def keep() -> float:
        changed.write_text(f"# changed {next(number)}\n")
        began = perf_counter()
        kept = trees.keep(_take(trees).id, "bench/1")
        took = perf_counter() - began
        if isinstance(kept, NoTree):
            raise SystemExit(f"not kept: {kept.reason}")
        return took

    keep()
    spent, floor = _rounds(keep, project, rounds)
    return beside(name, "ms", spent, STATUS, floor)


def _rounds(take: Callable[[], float], project: Path, rounds: int) -> tuple[list[float], list[float]]:
    spent, floor = [], []
    for _ in range(rounds):
        spent.append(take())
        floor.append(floors.run(["git", "status", "--porcelain"], cwd=project))
    return spent, floor


def _timed(trees: ScannedTrees) -> float:
    began = perf_counter()
    _take(trees)
    return perf_counter() - began


def _take(trees: ScannedTrees) -> TakenTree:
    tree = trees.take()
    if isinstance(tree, NoTree):
        raise SystemExit(f"no tree: {tree.reason}")
    return tree


def _repository(project: Path, count: int) -> Path:
    for number in range(count):
        folder = project / f"d{number % 40}" / f"e{number % 400}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.py").write_text(f"# {number}\n" * 200)
    for words in (("init", "-q"), ("add", ".")):
        subprocess.run(["git", "-C", str(project), *words], check=True)
    return project.resolve()
