"""AgentForge runs coding agents in durable pipelines.

The public API is `agentforge.sdk`; its main names are here, too, loaded on first use so that a command
that needs none of them starts fast.
"""

from typing import TYPE_CHECKING, Any

from agentforge.version import __version__

__all__ = ["AgentCli", "AgentForgeError", "CliAgent", "Engine", "RunResult", "SyncEngine", "__version__"]

if TYPE_CHECKING:
    from agentforge.adapters.cli_agents.cli_agent import CliAgent
    from agentforge.adapters.cli_agents.description import AgentCli
    from agentforge.app.results import RunResult
    from agentforge.model.errors import AgentForgeError
    from agentforge.sdk.engine import Engine
    from agentforge.sdk.sync import SyncEngine

_HOME = {
    "AgentCli": "agentforge.adapters.cli_agents.description",
    "CliAgent": "agentforge.adapters.cli_agents.cli_agent",
    "AgentForgeError": "agentforge.model.errors",
    "Engine": "agentforge.sdk.engine",
    "RunResult": "agentforge.app.results",
    "SyncEngine": "agentforge.sdk.sync",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'agentforge' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
