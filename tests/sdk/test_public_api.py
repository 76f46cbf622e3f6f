"""What the public modules export: complete; and for `agentforge` exactly what is listed here."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import agentforge
from agentforge.model import errors

from .public_signatures import exports, functions, hints, is_ours, mentioned, parameter_aliases

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
        "LeftInGit",
        "LintResult",
        "Available",
        "LogReport",
    ),
    *("AgentAttempt", "AgentLine", "GivenArtifact", "OutdatedRuns"),
    *("CheckCounts", "CheckRun", "StageCheck", "StageVisit", "Waiver"),
    *("HookContext", "HookResult"),
    *(
        "RunRecord",
        "DeliveredWork",
        "Delivery",
        "HookTry",
        "RunEvidence",
        "ProjectTests",
        "SuiteRun",
        "RunWork",
        "RunChange",
        "RunTrees",
        "IterationWork",
        "AttemptWork",
        "Amount",
        "CapView",
        "DailyAnswer",
        "Spending",
        "JudgeWork",
        "Changes",
        "FileChange",
    ),
    *("ArtifactWork", "ItemWork", "ItemIteration", "StageMetrics", "VisitMetrics", "VisitTotals", "Span"),
    *("TimelineRow", "RunWait"),
    *("CourseComparison", "Recording", "Replay", "Migration", "Finding", "Probe", "Summary", "Health"),
    *("AgentLogin", "ProjectSurvey", "StarterFiles"),
    *("PipelineSettings", "StageCall", "StageEnded"),
    *("StageContract", "SettingInForce", "SettingsCheckup", "SettingsFiles"),
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
    ),
    *("EarlierRuns", "Forecast", "Percentiles", "StageWorst", "Unbounded", "WorstCase"),
    *("AttemptLayout", "IterationLayout", "Destination", "ShellLines", "SourceText"),
    *("DefinitionKind", "OnStop", "ShownStatus"),
    *("EngineOptions", "CapOptions", "ResumeOptions", "RunOptions", "StartOptions"),
    *("ExtraTool", "LoopOutcome", "ToolCall", "PipelineFiles"),
)
MODULES = (
    "artifact",
    "cassette",
    "check",
    "condition",
    "frozen",
    "delivery",
    "facts",
    "hook",
    "plan",
    "request",
    "state",
    "status",
)
PORTS = ("Capabilities", "Clock", "EventLog", "LogReader", "LogWriter", "Provider", "AgentCli", "CliAgent")
FUNCTIONS = (
    *(
        "doctor",
        "copy_pipeline",
        "examine_project",
        "export_spans",
        "init_project",
        "is_pipeline_id",
        "pipeline_id",
        "pipeline_settings",
        "answer_of_resolution",
        "artifact_id",
        "request_id_of",
        "stage_contract",
        "protect_process",
        "refuse_agent",
        "provider_settings",
        "schema",
        "stop_on_signals",
        "write_artifact",
        "write_graph",
        "write_timeline",
    ),
    "RedactingFilter",
    *("parse_yaml", "plain_data", "read_yaml", "write_yaml", "run_model_task"),
)
ERRORS = tuple(
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.AgentForgeError)
)


def test_exports_are_exactly_these() -> None:
    listed = {*ENGINE, *RESULTS, *DATA, *MODULES, *PORTS, *FUNCTIONS, *ERRORS, "__version__"}
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


def test_every_type_in_a_public_signature_is_exported() -> None:
    known = {id(value) for value in exports().values()}
    missing = {
        f"{where}: {kind.__name__}"
        for value in exports().values()
        for where, hint in hints(value)
        for kind in mentioned(hint)
        if id(kind) not in known
    }
    assert missing == set()


def test_every_alias_that_a_parameter_takes_is_exported() -> None:
    unknown = {
        f"{where}: {alias}"
        for value in exports().values()
        if is_ours(value)
        for where, function in functions(value)
        for alias in parameter_aliases(function)
        if alias not in exports()
    }
    assert unknown == set()


def test_every_kind_of_signature_is_examined() -> None:
    """Fields, inherited properties, class methods, protocols, functions, and types behind the modules."""
    found = {where for value in exports().values() for where, _ in hints(value)}
    assert {
        "RunInfo: state",
        "Engine.on_resume: return",
        "RunLayout.of: return",
        "Recording.cassette: return",
        "EventLog.open: return",
        "ExecuteResult: failure",
        "agent_environment: extra",
        "ProviderContract.test_init_then_validate: provider",
        "StageNode: checks",
        "SessionStarted: plan",
    } <= found


@pytest.mark.parametrize(
    "kind", [agentforge.Engine, agentforge.SyncEngine, agentforge.Runs, agentforge.Definitions]
)
@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_project_folder_must_exist(tmp_path: Path, kind: Callable[[Path], object], name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        agentforge.InvalidRequest, match=f"project folder not found: {tmp_path / name}"
    ) as caught:
        kind(tmp_path / name)
    assert caught.value.hint == "create it, or pass another"


def test_public_attributes_of_an_engine_are_exported_types(tmp_path: Path) -> None:
    known = tuple(value for value in exports().values() if isinstance(value, type))
    with agentforge.SyncEngine(tmp_path) as sync:
        for owner in (sync, sync.engine, sync.runs, sync.definitions):
            shown = {name: value for name, value in vars(owner).items() if name[0] != "_" and is_ours(value)}
            assert {name for name, value in shown.items() if type(value) not in known} == set()


def test_sync_engine_has_every_call_of_the_engine() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name, member in inspect.getmembers(kind) if callable(member) and name[0] != "_"}

    assert calls(agentforge.Engine) - calls(agentforge.SyncEngine) == set()
