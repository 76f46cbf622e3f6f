"""The tree of a git repository: the first one, and one of unchanged files."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from agentforge.adapters.host.git_trees import GitTrees
from agentforge.model.secrets import Redactor
from agentforge.ports.tree import NoTree
from bench import floors
from bench.measure import Measure, beside

STATUS = "(e) git status of the same files"


def trees(root: Path, count: int, rounds: int) -> list[Measure]:
    project = _repository(root / "tracked", count)
    environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(root)}
    made = 0

    def fresh() -> GitTrees:
        nonlocal made
        made += 1
        return GitTrees(str(project), str(root / f"trees-{made}"), environ, Redactor(()))

    known = fresh()
    _take(known)
    first, first_floor = _rounds(lambda: _take(fresh()), project, max(2, rounds // 4))
    again, again_floor = _rounds(lambda: _take(known), project, rounds)
    name = f"tree of {count:,} files"
    return [
        beside(f"{name}, first", "ms", first, STATUS, first_floor),
        beside(f"{name}, unchanged", "ms", again, STATUS, again_floor),
    ]


def _rounds(take: Callable[[], float], project: Path, rounds: int) -> tuple[list[float], list[float]]:
    spent, floor = [], []
    for _ in range(rounds):
        spent.append(take())
        floor.append(floors.run(["git", "status", "--porcelain"], cwd=project))
    return spent, floor


def _take(trees: GitTrees) -> float:
    began = perf_counter()
    tree = trees.take()
    took = perf_counter() - began
    if isinstance(tree, NoTree):
        raise SystemExit(f"no tree: {tree.reason}")
    return took


def _repository(project: Path, count: int) -> Path:
    for number in range(count):
        folder = project / f"d{number % 40}" / f"e{number % 400}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.py").write_text(f"# {number}\n" * 200)
    for words in (("init", "-q"), ("add", ".")):
        subprocess.run(["git", "-C", str(project), *words], check=True)
    return project.resolve()
