"""What authors of providers import. docs/providers.md explains how to write one, and
`agentforge.testing.ProviderContract` tests it."""

from agentforge.adapters.cli_agents.description import AgentCli, OutputFields
from agentforge.adapters.cli_agents.program import ProgramProvider
from agentforge.adapters.cli_agents.settings import ConfigReader
from agentforge.adapters.environment import SettingValue, agent_environment
from agentforge.adapters.providers.cli import CliAgent
from agentforge.model.errors import InvalidSettings, MissingKey, ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import AgentQuestion, Artifacts, Decision, Result, Signals, Usage, WorkReport
from agentforge.model.spending import Amount
from agentforge.ports.provider import (
    Capabilities,
    CleansUp,
    Command,
    Endpoints,
    ExecuteRequest,
    ExecuteResult,
    Exit,
    KnowsPrices,
    NamesEndpoints,
    ProcessProvider,
    Provider,
    ShowsProgress,
    StageInput,
    ValidatesSettings,
)

__all__ = [
    "AgentCli",
    "AgentQuestion",
    "Amount",
    "Artifacts",
    "Capabilities",
    "CleansUp",
    "CliAgent",
    "Command",
    "ConfigReader",
    "Decision",
    "Endpoints",
    "ExecuteRequest",
    "ExecuteResult",
    "Exit",
    "Failure",
    "FailureKind",
    "InvalidSettings",
    "KnowsPrices",
    "MissingKey",
    "NamesEndpoints",
    "OutputFields",
    "ProcessProvider",
    "ProgramProvider",
    "Provider",
    "ProviderUnusable",
    "Result",
    "SettingValue",
    "ShowsProgress",
    "Signals",
    "StageInput",
    "Usage",
    "ValidatesSettings",
    "WorkReport",
    "agent_environment",
]
