"""AgentForge runs coding agents in durable pipelines.

This is the public API; `agentforge.provider` is what authors of providers import, `agentforge.testing` the
test kit. Names in lower case, such as `facts` and `plan`, are modules with the types that such data consists
of. Names are loaded on first use, so that importing the package is fast. docs/sdk.md explains them.
"""

from typing import TYPE_CHECKING, Any

from agentforge.version import __version__

if TYPE_CHECKING:
    from agentforge.adapters.cli_agents.description import AgentCli as AgentCli
    from agentforge.adapters.log.jsonl_log import LogReport as LogReport
    from agentforge.adapters.providers.cli import CliAgent as CliAgent
    from agentforge.adapters.providers.python_class import StageCall as StageCall
    from agentforge.adapters.providers.python_class import StageEnded as StageEnded
    from agentforge.app.agent_output import AgentAttempt as AgentAttempt
    from agentforge.app.agent_output import AgentLine as AgentLine
    from agentforge.app.agent_output import AgentOutput as AgentOutput
    from agentforge.app.agent_output import OutputTail as OutputTail
    from agentforge.app.background import Background as Background
    from agentforge.app.background import BackgroundRun as BackgroundRun
    from agentforge.app.definitions import DefinitionKind as DefinitionKind
    from agentforge.app.definitions import Definitions as Definitions
    from agentforge.app.definitions import LintResult as LintResult
    from agentforge.app.definitions import provider_settings as provider_settings
    from agentforge.app.definitions import schema as schema
    from agentforge.app.doctor import doctor as doctor
    from agentforge.app.hooks import HookContext as HookContext
    from agentforge.app.model_tasks import run_model_task as run_model_task
    from agentforge.app.pictures import write_graph as write_graph
    from agentforge.app.pictures import write_timeline as write_timeline
    from agentforge.app.probes import Probe as Probe
    from agentforge.app.project_tests import ProjectTests as ProjectTests
    from agentforge.app.project_tests import SuiteRun as SuiteRun
    from agentforge.app.providers.logins import AgentLogin as AgentLogin
    from agentforge.app.providers.readiness import ProviderInfo as ProviderInfo
    from agentforge.app.providers.readiness import Readiness as Readiness
    from agentforge.app.recording import Recording as Recording
    from agentforge.app.recording import Replay as Replay
    from agentforge.app.redaction import RedactingFilter as RedactingFilter
    from agentforge.app.runs.answers import OpenRequest as OpenRequest
    from agentforge.app.runs.caller import refuse_agent as refuse_agent
    from agentforge.app.runs.compilation import CourseComparison as CourseComparison
    from agentforge.app.runs.context import EngineOptions as EngineOptions
    from agentforge.app.runs.evidence import RunEvidence as RunEvidence
    from agentforge.app.runs.first_artifact import GivenArtifact as GivenArtifact
    from agentforge.app.runs.first_artifact import write_artifact as write_artifact
    from agentforge.app.runs.forecast import Forecast as Forecast
    from agentforge.app.runs.lookup import RunRow as RunRow
    from agentforge.app.runs.lookup import Runs as Runs
    from agentforge.app.runs.removal import OutdatedRuns as OutdatedRuns
    from agentforge.app.runs.span_export import export_spans as export_spans
    from agentforge.app.runs.updates import Overview as Overview
    from agentforge.app.runs.updates import Tail as Tail
    from agentforge.app.runs.work import RunChange as RunChange
    from agentforge.app.runs.work import RunWork as RunWork
    from agentforge.app.settings_files import SettingInForce as SettingInForce
    from agentforge.app.settings_files import SettingsCheckup as SettingsCheckup
    from agentforge.app.settings_files import SettingsFiles as SettingsFiles
    from agentforge.app.stage_contracts import StageContract as StageContract
    from agentforge.app.stage_contracts import stage_contract as stage_contract
    from agentforge.app.starter import ProjectSurvey as ProjectSurvey
    from agentforge.app.starter import StarterFiles as StarterFiles
    from agentforge.app.starter import copy_pipeline as copy_pipeline
    from agentforge.app.starter import examine_project as examine_project
    from agentforge.app.starter import init_project as init_project
    from agentforge.definition.compiler import Compiled as Compiled
    from agentforge.definition.compiler import PipelineSource as PipelineSource
    from agentforge.definition.report import SourceText as SourceText
    from agentforge.definition.resolve import Available as Available
    from agentforge.engine.rehearsal.rehearse import Difference as Difference
    from agentforge.engine.rehearsal.rehearse import Rehearsal as Rehearsal
    from agentforge.engine.worst_case import StageWorst as StageWorst
    from agentforge.engine.worst_case import Unbounded as Unbounded
    from agentforge.engine.worst_case import WorstCase as WorstCase
    from agentforge.legacy.migration import Finding as Finding
    from agentforge.legacy.migration import Migration as Migration
    from agentforge.model import artifact as artifact
    from agentforge.model import cassette as cassette
    from agentforge.model import check as check
    from agentforge.model import condition as condition
    from agentforge.model import delivery as delivery
    from agentforge.model import facts as facts
    from agentforge.model import frozen as frozen
    from agentforge.model import hook as hook
    from agentforge.model import plan as plan
    from agentforge.model import request as request
    from agentforge.model import state as state
    from agentforge.model import status as status
    from agentforge.model.cassette import Cassette as Cassette
    from agentforge.model.changes import Changes as Changes
    from agentforge.model.changes import FileChange as FileChange
    from agentforge.model.changes import LeftInGit as LeftInGit
    from agentforge.model.check import CheckCounts as CheckCounts
    from agentforge.model.course import CourseStep as CourseStep
    from agentforge.model.cursor import Cursor as Cursor
    from agentforge.model.cursor import Destination as Destination
    from agentforge.model.delivery import DeliveredWork as DeliveredWork
    from agentforge.model.diagnostic import Diagnostic as Diagnostic
    from agentforge.model.diagnostic import SourcePlace as SourcePlace
    from agentforge.model.errors import AgentForgeError as AgentForgeError
    from agentforge.model.errors import AlreadyAnswered as AlreadyAnswered
    from agentforge.model.errors import DefinitionError as DefinitionError
    from agentforge.model.errors import Execution as Execution
    from agentforge.model.errors import ExecutorMissing as ExecutorMissing
    from agentforge.model.errors import ForeignRequest as ForeignRequest
    from agentforge.model.errors import HookMissing as HookMissing
    from agentforge.model.errors import IllegalMove as IllegalMove
    from agentforge.model.errors import InvalidAnswer as InvalidAnswer
    from agentforge.model.errors import InvalidRequest as InvalidRequest
    from agentforge.model.errors import InvalidSession as InvalidSession
    from agentforge.model.errors import InvalidSettings as InvalidSettings
    from agentforge.model.errors import LogConflict as LogConflict
    from agentforge.model.errors import LogCorrupt as LogCorrupt
    from agentforge.model.errors import LogTooNew as LogTooNew
    from agentforge.model.errors import LogTooOld as LogTooOld
    from agentforge.model.errors import MissingKey as MissingKey
    from agentforge.model.errors import NotPermitted as NotPermitted
    from agentforge.model.errors import ProviderUnusable as ProviderUnusable
    from agentforge.model.errors import RequestClosed as RequestClosed
    from agentforge.model.errors import RunActive as RunActive
    from agentforge.model.errors import RunExists as RunExists
    from agentforge.model.errors import StorageFailed as StorageFailed
    from agentforge.model.errors import UnknownProvider as UnknownProvider
    from agentforge.model.errors import UnknownRequest as UnknownRequest
    from agentforge.model.errors import UnknownRun as UnknownRun
    from agentforge.model.errors import UntrustedRun as UntrustedRun
    from agentforge.model.errors import UnusableFile as UnusableFile
    from agentforge.model.event import Event as Event
    from agentforge.model.facts import AnyFact as AnyFact
    from agentforge.model.failure import StopReason as StopReason
    from agentforge.model.hook import HookResult as HookResult
    from agentforge.model.layout import AttemptLayout as AttemptLayout
    from agentforge.model.layout import IterationLayout as IterationLayout
    from agentforge.model.layout import RunLayout as RunLayout
    from agentforge.model.names import is_pipeline_id as is_pipeline_id
    from agentforge.model.names import pipeline_id as pipeline_id
    from agentforge.model.plan import Overrides as Overrides
    from agentforge.model.plan import Plan as Plan
    from agentforge.model.request import Request as Request
    from agentforge.model.run_options import CapOptions as CapOptions
    from agentforge.model.run_options import ResumeOptions as ResumeOptions
    from agentforge.model.run_options import RunOptions as RunOptions
    from agentforge.model.run_options import StartOptions as StartOptions
    from agentforge.model.spending import Amount as Amount
    from agentforge.model.spending import DailyAnswer as DailyAnswer
    from agentforge.model.spending import Spending as Spending
    from agentforge.model.state import RunState as RunState
    from agentforge.model.state import Waiver as Waiver
    from agentforge.model.status import RunStatus as RunStatus
    from agentforge.ports.event_log import BufferHealth as BufferHealth
    from agentforge.ports.event_log import Damage as Damage
    from agentforge.ports.event_log import EventLog as EventLog
    from agentforge.ports.event_log import Head as Head
    from agentforge.ports.event_log import LogReader as LogReader
    from agentforge.ports.event_log import LogWriter as LogWriter
    from agentforge.ports.event_log import ShellLines as ShellLines
    from agentforge.ports.event_log import TornTail as TornTail
    from agentforge.ports.host import Clock as Clock
    from agentforge.ports.provider import Capabilities as Capabilities
    from agentforge.ports.provider import Provider as Provider
    from agentforge.runtime.pipeline_files import PipelineFiles as PipelineFiles
    from agentforge.runtime.supervision import SupervisorLimits as SupervisorLimits
    from agentforge.sdk.engine import Engine as Engine
    from agentforge.sdk.hooks import HookDecorator as HookDecorator
    from agentforge.sdk.signals import OnStop as OnStop
    from agentforge.sdk.signals import StopSignal as StopSignal
    from agentforge.sdk.signals import stop_on_signals as stop_on_signals
    from agentforge.sdk.sync import SyncEngine as SyncEngine
    from agentforge.system.linux import protect_process as protect_process
    from agentforge.system.yaml_files import parse_yaml as parse_yaml
    from agentforge.system.yaml_files import plain_data as plain_data
    from agentforge.system.yaml_files import read_yaml as read_yaml
    from agentforge.system.yaml_files import write_yaml as write_yaml
    from agentforge.tool_loop.task import ExtraTool as ExtraTool
    from agentforge.tool_loop.task import LoopOutcome as LoopOutcome
    from agentforge.tool_loop.task import ToolCall as ToolCall
    from agentforge.views.artifacts import artifact_id as artifact_id
    from agentforge.views.artifacts import request_id_of as request_id_of
    from agentforge.views.earlier_runs import EarlierRuns as EarlierRuns
    from agentforge.views.earlier_runs import Percentiles as Percentiles
    from agentforge.views.files.escalation import answer_of_resolution as answer_of_resolution
    from agentforge.views.files.pipeline import PipelineSettings as PipelineSettings
    from agentforge.views.files.pipeline import pipeline_settings as pipeline_settings
    from agentforge.views.hook_calls import Delivery as Delivery
    from agentforge.views.hook_calls import HookTry as HookTry
    from agentforge.views.metrics import StageMetrics as StageMetrics
    from agentforge.views.metrics import VisitMetrics as VisitMetrics
    from agentforge.views.record import RunRecord as RunRecord
    from agentforge.views.record import RunTrees as RunTrees
    from agentforge.views.results import RunInfo as RunInfo
    from agentforge.views.results import RunResult as RunResult
    from agentforge.views.results import ShownStatus as ShownStatus
    from agentforge.views.run_model import Health as Health
    from agentforge.views.run_model import Summary as Summary
    from agentforge.views.spans import Span as Span
    from agentforge.views.spending import CapView as CapView
    from agentforge.views.status import RunningCheck as RunningCheck
    from agentforge.views.status import WaitStatus as WaitStatus
    from agentforge.views.structured_work import ArtifactWork as ArtifactWork
    from agentforge.views.structured_work import ItemIteration as ItemIteration
    from agentforge.views.structured_work import ItemWork as ItemWork
    from agentforge.views.timeline import TimelineRow as TimelineRow
    from agentforge.views.visit_totals import VisitTotals as VisitTotals
    from agentforge.views.visits import CheckRun as CheckRun
    from agentforge.views.visits import StageCheck as StageCheck
    from agentforge.views.visits import StageVisit as StageVisit
    from agentforge.views.waits import RunWait as RunWait
    from agentforge.views.work import AttemptWork as AttemptWork
    from agentforge.views.work import IterationWork as IterationWork
    from agentforge.views.work import JudgeWork as JudgeWork

_ERRORS = (
    "AgentForgeError",
    "AlreadyAnswered",
    "DefinitionError",
    "ExecutorMissing",
    "ForeignRequest",
    "HookMissing",
    "IllegalMove",
    "InvalidAnswer",
    "InvalidRequest",
    "InvalidSession",
    "InvalidSettings",
    "MissingKey",
    "LogConflict",
    "LogCorrupt",
    "LogTooNew",
    "LogTooOld",
    "NotPermitted",
    "ProviderUnusable",
    "RequestClosed",
    "RunActive",
    "RunExists",
    "StorageFailed",
    "UnknownProvider",
    "UnknownRequest",
    "UnknownRun",
    "UntrustedRun",
    "UnusableFile",
)
_HOME = {
    "adapters.providers.cli": ("CliAgent",),
    "adapters.cli_agents.description": ("AgentCli",),
    "adapters.log.jsonl_log": ("LogReport",),
    "adapters.providers.python_class": ("StageCall", "StageEnded"),
    "app.agent_output": ("AgentAttempt", "AgentLine", "AgentOutput", "OutputTail"),
    "app.background": ("Background", "BackgroundRun"),
    "app.definitions": (
        "DefinitionKind",
        "Definitions",
        "LintResult",
        "provider_settings",
        "schema",
    ),
    "app.doctor": ("doctor",),
    "app.hooks": ("HookContext",),
    "app.providers.logins": ("AgentLogin",),
    "app.providers.readiness": ("ProviderInfo", "Readiness"),
    "app.recording": ("Recording", "Replay"),
    "app.runs.caller": ("refuse_agent",),
    "app.runs.compilation": ("CourseComparison",),
    "app.redaction": ("RedactingFilter",),
    "app.model_tasks": ("run_model_task",),
    "app.pictures": ("write_graph", "write_timeline"),
    "app.probes": ("Probe",),
    "app.runs.answers": ("OpenRequest",),
    "app.runs.forecast": ("Forecast",),
    "app.runs.first_artifact": ("GivenArtifact", "write_artifact"),
    "app.runs.lookup": ("RunRow", "Runs"),
    "app.runs.updates": ("Overview", "Tail"),
    "app.runs.removal": ("OutdatedRuns",),
    "app.runs.span_export": ("export_spans",),
    "app.runs.context": ("EngineOptions",),
    "app.project_tests": ("ProjectTests", "SuiteRun"),
    "app.runs.evidence": ("RunEvidence",),
    "app.runs.work": ("RunChange", "RunWork"),
    "app.settings_files": ("SettingInForce", "SettingsCheckup", "SettingsFiles"),
    "app.stage_contracts": ("StageContract", "stage_contract"),
    "app.starter": ("ProjectSurvey", "StarterFiles", "copy_pipeline", "examine_project", "init_project"),
    "definition.compiler": ("Compiled", "PipelineSource"),
    "definition.resolve": ("Available",),
    "definition.report": ("SourceText",),
    "legacy.migration": ("Finding", "Migration"),
    "engine.rehearsal.rehearse": ("Difference", "Rehearsal"),
    "engine.worst_case": ("StageWorst", "Unbounded", "WorstCase"),
    "model.course": ("CourseStep",),
    "model": (
        *(
            "artifact",
            "cassette",
            "check",
            "condition",
            "delivery",
            "facts",
            "frozen",
            "hook",
            "plan",
            "request",
            "state",
        ),
        "status",
    ),
    "model.cassette": ("Cassette",),
    "model.cursor": ("Cursor", "Destination"),
    "model.check": ("CheckCounts",),
    "model.delivery": ("DeliveredWork",),
    "model.diagnostic": ("Diagnostic", "SourcePlace"),
    "model.errors": (*_ERRORS, "Execution"),
    "model.event": ("Event",),
    "model.facts": ("AnyFact",),
    "model.failure": ("StopReason",),
    "model.changes": ("Changes", "FileChange", "LeftInGit"),
    "model.hook": ("HookResult",),
    "model.layout": ("AttemptLayout", "IterationLayout", "RunLayout"),
    "model.names": ("is_pipeline_id", "pipeline_id"),
    "model.plan": ("Overrides", "Plan"),
    "model.request": ("Request",),
    "model.run_options": ("CapOptions", "ResumeOptions", "RunOptions", "StartOptions"),
    "model.spending": ("Amount", "DailyAnswer", "Spending"),
    "model.state": ("RunState", "Waiver"),
    "model.status": ("RunStatus",),
    "ports.event_log": (
        "BufferHealth",
        "Damage",
        "EventLog",
        "Head",
        "LogReader",
        "LogWriter",
        "ShellLines",
        "TornTail",
    ),
    "ports.host": ("Clock",),
    "ports.provider": ("Capabilities", "Provider"),
    "runtime.pipeline_files": ("PipelineFiles",),
    "runtime.supervision": ("SupervisorLimits",),
    "sdk.engine": ("Engine",),
    "sdk.hooks": ("HookDecorator",),
    "sdk.signals": ("OnStop", "StopSignal", "stop_on_signals"),
    "sdk.sync": ("SyncEngine",),
    "system.linux": ("protect_process",),
    "system.yaml_files": ("parse_yaml", "plain_data", "read_yaml", "write_yaml"),
    "tool_loop.task": ("ExtraTool", "LoopOutcome", "ToolCall"),
    "views.artifacts": ("artifact_id", "request_id_of"),
    "views.earlier_runs": ("EarlierRuns", "Percentiles"),
    "views.files.escalation": ("answer_of_resolution",),
    "views.files.pipeline": ("PipelineSettings", "pipeline_settings"),
    "views.hook_calls": ("Delivery", "HookTry"),
    "views.metrics": ("StageMetrics", "VisitMetrics"),
    "views.record": ("RunRecord", "RunTrees"),
    "views.spending": ("CapView",),
    "views.results": ("RunInfo", "RunResult", "ShownStatus"),
    "views.spans": ("Span",),
    "views.status": ("RunningCheck", "WaitStatus"),
    "views.run_model": ("Health", "Summary"),
    "views.structured_work": ("ArtifactWork", "ItemIteration", "ItemWork"),
    "views.timeline": ("TimelineRow",),
    "views.visit_totals": ("VisitTotals",),
    "views.waits": ("RunWait",),
    "views.visits": ("CheckRun", "StageCheck", "StageVisit"),
    "views.work": ("AttemptWork", "IterationWork", "JudgeWork"),
}
_MODULES = {name: f"agentforge.{module}" for module, names in _HOME.items() for name in names}

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604 - a list of strings


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'agentforge' has no attribute {name!r}")
    from importlib import import_module

    if _MODULES[name] == "agentforge.model":
        return import_module(f"agentforge.model.{name}")
    return getattr(import_module(_MODULES[name]), name)
