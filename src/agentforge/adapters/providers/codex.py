"""Codex: `codex exec`, with the prompt on stdin and an effort of reasoning, as in `gpt-5.2-codex:high`."""

from agentforge.adapters.providers.agent_cli import AgentCli
from agentforge.model.failure import FailureKind

# Without it the agent may end its turn with a question, or sit and wait for the next message.
EXIT_INSTRUCTION = """

---

You are a step of an automated pipeline: nobody reads along and no further message will come. Decide for
yourself instead of asking. When the work is done and the files you were asked for are written, stop.
"""

CODEX = AgentCli(
    name="codex",
    title="Codex",
    install="npm install -g @openai/codex",
    log_in="run `codex login`",
    keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
    logins=("$CODEX_HOME:~/.codex/auth.json",),
    arguments=(
        *("exec", "--json", "--skip-git-repo-check"),
        *("-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false"),
    ),
    prompt_arguments=("-",),
    prompt_suffix=EXIT_INSTRUCTION,
    permission_arguments=("--dangerously-bypass-approvals-and-sandbox",),
    model_arguments=("--model", "{model}"),
    models=(
        *("gpt-5.2-codex", "gpt-5.1-codex-max", "gpt-5.1-codex-mini", "gpt-5.1-codex"),
        *("gpt-5-codex", "gpt-5-codex-mini", "gpt-5.5", "gpt-5.6-luna", "gpt-5.6-sol", "gpt-5.6-terra"),
        *("gpt-6-astra", "gpt-6-luna", "gpt-6-sol", "gpt-6.1-sol"),
    ),
    default_model="gpt-5.2-codex",
    model_variable="CODEX_MODEL",
    effort_arguments=("-c", "model_reasoning_effort={effort}"),
    efforts=("xhigh", "high", "medium", "low", "minimal"),
    default_effort="high",
    effort_variable="CODEX_REASONING_EFFORT",
    resume_arguments=("resume", "{session}"),
    passes=("CODEX_*", "OPENAI_*", "AZURE_OPENAI_*", "OLLAMA_*", "RUST_LOG"),
    state=("${CODEX_HOME:-~/.codex}",),
    retries=3,
    # Those of the providers that codex brings along can't be changed.
    retry_arguments=(
        *("-c", "model_provider={model_provider}"),
        *("-c", "model_providers.{model_provider}.request_max_retries={retries}"),
        *("-c", "model_providers.{model_provider}.stream_max_retries={retries}"),
    ),
    timeout=900.0,
    timeout_variable="CODEX_TIMEOUT",
    term_grace=30.0,
    output="codex",
    lost_session_patterns=("no rollout found",),
    failures={"To use Codex with your ChatGPT plan": FailureKind.PROVIDER_AUTH},
)
