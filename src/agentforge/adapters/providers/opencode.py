"""opencode: `opencode run`, with the prompt on stdin; models are written `provider/model`."""

from agentforge.adapters.providers.agent_cli import AgentCli

OPENCODE = AgentCli(
    name="opencode",
    title="opencode",
    install="npm install -g opencode-ai",
    log_in="run `opencode auth login`",
    keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "OPENCODE_CONFIG"),
    logins=(
        "$XDG_DATA_HOME:~/.local/share/opencode/auth.json",
        "$XDG_CONFIG_HOME:~/.config/opencode/opencode.json",
    ),
    arguments=("run", "--format", "json"),
    permission_arguments=("--auto",),
    model_arguments=("--model", "{model}"),
    effort_arguments=("--variant", "{effort}"),
    efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
    resume_arguments=("--session", "{session}"),
    environment={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_SHARE": "1"},
    passes=(
        *("OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "AWS_*", "AZURE_*"),
        *("VERTEX_*", "OLLAMA_*", "LMSTUDIO_*", "OPENROUTER_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY"),
        *("DEEPSEEK_API_KEY", "XAI_API_KEY", "TOGETHER_API_KEY", "CEREBRAS_API_KEY", "GITHUB_TOKEN"),
    ),
    state=(
        "${XDG_CONFIG_HOME:-~/.config}/opencode",
        "${XDG_DATA_HOME:-~/.local/share}/opencode",
        "${XDG_STATE_HOME:-~/.local/state}/opencode",
        "${XDG_CACHE_HOME:-~/.cache}/opencode",
        "${OPENCODE_CONFIG}",
        "${OPENCODE_CONFIG_DIR}",
    ),
    # It bounds its own retries by nothing that can be set, and where it can't reach a model it is silent.
    idle_timeout=900.0,
    output="opencode",
    lost_session_patterns=("Session not found",),
)
