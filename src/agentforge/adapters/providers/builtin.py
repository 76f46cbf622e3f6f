"""The providers that are available without registration."""

from collections.abc import Mapping

from agentforge.adapters.providers.api import ApiProvider
from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.cli import CliAgent, InlineCli
from agentforge.adapters.providers.codex import CODEX
from agentforge.adapters.providers.command import CommandProvider
from agentforge.adapters.providers.gemini import GEMINI
from agentforge.adapters.providers.mock import MockProvider
from agentforge.adapters.providers.opencode import OPENCODE
from agentforge.adapters.providers.replay import ReplayProvider
from agentforge.ports.provider import Provider


def builtin_providers(environ: Mapping[str, str]) -> dict[str, Provider]:
    """New instances by name; their agents inherit `environ`."""
    providers: tuple[Provider, ...] = (
        CliAgent(CLAUDE, environ),
        CliAgent(CODEX, environ),
        CliAgent(OPENCODE, environ),
        CliAgent(GEMINI, environ),
        InlineCli(environ),
        ApiProvider(environ),
        CommandProvider(environ),
        MockProvider(environ),
        ReplayProvider(environ),
    )
    return {provider.name: provider for provider in providers}
