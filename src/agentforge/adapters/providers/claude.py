"""Claude Code: `claude --print`, with the prompt on stdin and the answer as text."""

import os
from collections.abc import Mapping

from agentforge.adapters.providers.cli_agent import AgentCli, Call
from agentforge.ports.provider import Capabilities, ExecuteRequest

ALIASES = {"claude-opus": "opus", "claude-sonnet": "sonnet", "claude-haiku": "haiku"}
"""To the names that the CLI itself resolves; any other name is the CLI's to judge."""

# What tells the CLI that root may skip the permissions.
SANDBOXED = ("IS_SANDBOX", "CLAUDE_CODE_BUBBLEWRAP")


def claude_call(request: ExecuteRequest, environment: Mapping[str, str]) -> Call:
    model = ALIASES.get(request.model, request.model)
    return Call(
        arguments=("--print", "--dangerously-skip-permissions", *(("--model", model) if model else ())),
        stdin=request.prompt,
        env=root_environment(environment, os.geteuid()),
    )


def root_environment(environment: Mapping[str, str], uid: int) -> dict[str, str]:
    """As root, the CLI refuses to work unattended unless it is told that it is in a sandbox."""
    if uid != 0 or any(environment.get(name) for name in SANDBOXED):
        return {}
    return {"IS_SANDBOX": "1"}


CLAUDE = AgentCli(
    name="claude",
    title="Claude",
    install="npm install -g @anthropic-ai/claude-code",
    call=claude_call,
    capabilities=Capabilities(supports_tools=True),
)
