"""Parallel blocks for tests: nodes in a few words, and an engine whose providers follow scripts."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.sdk.projects import ENVIRON, load, run_dir

from agentforge.ports.provider import ExecuteRequest
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, says

Script = Callable[[ExecuteRequest], Act]

BLOCK = "parallel-00-duel"


def block(providers: list[Any], *stages: dict[str, Any], id: str = "duel", **more: Any) -> dict[str, Any]:
    return {"id": id, "parallel": {"providers": providers, "stages": list(stages)}, **more}


def inner(id: str = "draft", **changes: Any) -> dict[str, Any]:
    """A stage of a block; its provider is the branch's."""
    return {"id": id, "prompt": "do ${ITERATION}", "delay": 0, "retry": {"initial_delay": 0}, **changes}


def speaks(request: ExecuteRequest) -> Act:
    """Each iteration of each stage has a different output."""
    who = request.environment["MOCK_PROVIDER"]
    return says(f"{who} {request.stage} {request.iteration}")


def players(**scripts: Script) -> dict[str, ScriptedProvider]:
    """`claude` and `codex` (and more), each a scripted provider."""
    names = {"claude": speaks, "codex": speaks, **scripts}
    return {name: ScriptedProvider(script, name=name) for name, script in names.items()}


def engine(project: Path, providers: Mapping[str, Any] | None = None, **options: Any) -> Engine:
    return Engine(project, providers=providers or players(), **{"environ": ENVIRON, **options})


def branch_dir(project: Path, provider: str, block: str = BLOCK) -> Path:
    return run_dir(project) / block / "providers" / provider


def iteration(
    project: Path, provider: str, number: int = 1, stage: str = "stage-00-draft", block: str = BLOCK
) -> Path:
    return branch_dir(project, provider, block) / stage / "iterations" / f"{number:03d}"


def context_of(folder: Path) -> dict[str, Any]:
    context: dict[str, Any] = load(folder / "context.json")
    return context


def inputs_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = context_of(folder)["inputs"]
    return found
