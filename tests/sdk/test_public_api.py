"""What `agentforge` and `agentforge.provider` export: listed here, and complete."""

import ast
import inspect
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import agentforge
import agentforge.provider
from agentforge.model import errors

ENGINE = (
    "Engine",
    "SyncEngine",
    "Runs",
    "Definitions",
    "Background",
    "Tail",
    "AgentOutput",
    "OutputTail",
    "Overview",
    "HookDecorator",
)
RESULTS = (
    *(
        "RunResult",
        "RunInfo",
        "OpenRequest",
        "RunRow",
        "WaitStatus",
        "RunningCheck",
        "ProviderInfo",
        "BackgroundRun",
        "LintResult",
        "Available",
        "LogReport",
    ),
    *("AgentAttempt", "AgentLine", "OutdatedRuns"),
    *("CheckCounts", "CheckRun", "StageVisit", "Waiver"),
    *("HookContext", "HookResult"),
    *(
        "RunWork",
        "RunChange",
        "RunTrees",
        "IterationWork",
        "AttemptWork",
        "Spending",
        "JudgeWork",
        "Changes",
        "FileChange",
    ),
    *("CourseComparison", "Recording", "Replay", "Migration", "Finding", "Probe", "Summary", "Health"),
    *("AgentLogin", "ProjectSurvey", "StarterFiles"),
    *(
        "Rehearsal",
        "CourseStep",
        "Difference",
        "LogReport",
        "Damage",
        "TornTail",
        "BufferHealth",
        "Readiness",
        "StopSignal",
    ),
)
DATA = (
    *(
        "AnyFact",
        "Cassette",
        "Compiled",
        "Cursor",
        "Diagnostic",
        "Event",
        "Execution",
        "Head",
        "Overrides",
        "PipelineSource",
        "Plan",
    ),
    *(
        "Request",
        "RunLayout",
        "RunState",
        "RunStatus",
        "SourcePlace",
        "StopReason",
        "SupervisorLimits",
        "facts",
    ),
)
PORTS = ("Capabilities", "Clock", "EventLog", "Provider", "AgentCli", "CliAgent")
FUNCTIONS = (
    *(
        "doctor",
        "examine_project",
        "init_project",
        "protect_process",
        "provider_settings",
        "schema",
        "stop_on_signals",
        "write_graph",
    ),
    "RedactingFilter",
)
ERRORS = tuple(
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.AgentForgeError)
)


def test_exports_are_exactly_these() -> None:
    listed = {*ENGINE, *RESULTS, *DATA, *PORTS, *FUNCTIONS, *ERRORS, "__version__"}
    assert set(agentforge.__all__) == listed


@pytest.mark.parametrize("name", agentforge.__all__)
def test_every_export_can_be_imported(name: str) -> None:
    assert getattr(agentforge, name) is not None


def test_type_checkers_see_what_is_loaded_on_first_use() -> None:
    tree = ast.parse(Path(agentforge.__file__).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == agentforge._MODULES


def test_importing_the_package_loads_no_engine() -> None:
    loaded = "import agentforge, sys; print(sum(name.startswith('agentforge.') for name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert int(ran.stdout) <= 2


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = agentforge.Nothing


def public_callables(owner: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isfunction(owner):
        yield owner.__name__, owner
        return
    for name, member in inspect.getmembers(owner):
        if name == "__init__" or not name.startswith("_"):
            target = member.fget if isinstance(member, property) else member
            if inspect.isfunction(target) and target.__module__.startswith("agentforge"):
                yield f"{owner.__name__}.{name}", target


def mentioned(hint: Any) -> Iterator[type]:
    """The types of ours that an annotation mentions."""
    if typing.get_origin(hint) is not None or isinstance(hint, types.UnionType):
        for part in typing.get_args(hint):
            yield from mentioned(part)
    elif isinstance(hint, list | tuple):
        for part in hint:
            yield from mentioned(part)
    elif isinstance(hint, type) and hint.__module__.startswith("agentforge"):
        yield hint


def signatures() -> Iterator[tuple[str, Any]]:
    for name in (*ENGINE, *FUNCTIONS, "CliAgent"):
        for where, target in public_callables(getattr(agentforge, name)):
            yield where, typing.get_type_hints(target)
    for name in RESULTS:
        kind = getattr(agentforge, name)
        if issubclass(kind, msgspec.Struct):
            yield name, {field.name: field.type for field in msgspec.structs.fields(kind)}
    for name in agentforge.provider.__all__:
        kind = getattr(agentforge.provider, name)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield name, {field.name: field.type for field in msgspec.structs.fields(kind)}


def test_every_type_in_a_public_signature_is_exported() -> None:
    exported = {
        getattr(agentforge, name) for name in agentforge.__all__ if name not in ("facts", "__version__")
    }
    exported |= {getattr(agentforge.provider, name) for name in agentforge.provider.__all__}
    facts = {kind for kind in vars(agentforge.facts).values() if isinstance(kind, type)}
    missing = {
        f"{where}: {kind.__name__}"
        for where, hints in signatures()
        for hint in hints.values()
        for kind in mentioned(hint)
        if kind not in exported | facts
    }
    assert missing == set()


def test_sync_engine_has_every_call_of_the_engine() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name, member in inspect.getmembers(kind) if callable(member) and name[0] != "_"}

    assert calls(agentforge.Engine) - calls(agentforge.SyncEngine) == set()
