"""Codex: `codex exec`, with the prompt on stdin and an effort of reasoning, as in `gpt-5.2-codex:high`."""

from collections.abc import Mapping

from agentforge.adapters.providers.cli_agent import AgentCli, Call, seconds
from agentforge.model.errors import ProviderUnusable
from agentforge.ports.provider import Capabilities, ExecuteRequest

MODELS = (
    "gpt-5.2-codex",
    "gpt-5.1-codex-max",
    "gpt-5.1-codex-mini",
    "gpt-5.1-codex",
    "gpt-5-codex",
    "gpt-5-codex-mini",
)
EFFORTS = ("xhigh", "high", "medium", "low", "minimal")
DEFAULT_EFFORT = "high"
DEFAULT_TIMEOUT = "900"

# Without it the agent may end its turn with a question, or sit and wait for the next message.
EXIT_INSTRUCTION = """

---

You are a step of an automated pipeline: nobody reads along and no further message will come. Decide for
yourself instead of asking. When the work is done and the files you were asked for are written, stop.
"""


def codex_call(request: ExecuteRequest, environment: Mapping[str, str]) -> Call:
    model, effort = model_and_effort(request.model, environment)
    doubt = f"model {model!r} isn't known to work (known: {', '.join(MODELS)})"
    return Call(
        arguments=(
            *("exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"),
            *("--model", model, "-c", f"model_reasoning_effort={effort}", "-"),
        ),
        stdin=request.prompt + EXIT_INSTRUCTION,
        timeout=seconds("CODEX_TIMEOUT", environment.get("CODEX_TIMEOUT") or DEFAULT_TIMEOUT),
        warning="" if model in MODELS else doubt,
    )


def model_and_effort(wanted: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """`M:E` taken apart; a colon before anything else belongs to the model's name."""
    wanted = wanted or environment.get("CODEX_MODEL") or MODELS[0]
    model, _, suffix = wanted.rpartition(":")
    if model and suffix in EFFORTS:
        return model, suffix
    effort = environment.get("CODEX_REASONING_EFFORT") or DEFAULT_EFFORT
    if effort not in EFFORTS:
        raise ProviderUnusable(
            f"CODEX_REASONING_EFFORT is no effort of reasoning: {effort!r}", hint=f"use {', '.join(EFFORTS)}"
        )
    return wanted, effort


CODEX = AgentCli(
    name="codex",
    title="Codex",
    install="npm install -g @openai/codex",
    call=codex_call,
    capabilities=Capabilities(supports_tools=True, supports_reasoning_control=True),
)
