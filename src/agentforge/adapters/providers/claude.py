"""Claude Code: `claude --print`, with the prompt on stdin and its stream of events as output."""

from agentforge.adapters.providers.agent_cli import AgentCli

CLAUDE = AgentCli(
    name="claude",
    title="Claude",
    install="npm install -g @anthropic-ai/claude-code",
    log_in="run `claude` once and log in",
    keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK"),
    logins=("$CLAUDE_CONFIG_DIR:~/.claude/.credentials.json",),
    arguments=("--print", "--output-format", "stream-json", "--verbose"),
    permission_arguments=("--dangerously-skip-permissions",),
    model_arguments=("--model", "{model}"),
    # To the names that the CLI itself resolves; any other name is the CLI's to judge.
    aliases={"claude-opus": "opus", "claude-sonnet": "sonnet", "claude-haiku": "haiku"},
    effort_arguments=("--effort", "{effort}"),
    efforts=("low", "medium", "high", "xhigh", "max"),
    resume_arguments=("--resume", "{session}"),
    environment={
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
    # As root, the CLI skips the permissions only if it is told that it is in a sandbox.
    root_environment={"IS_SANDBOX": "1"},
    root_unless=("IS_SANDBOX", "CLAUDE_CODE_BUBBLEWRAP"),
    passes=(
        *("ANTHROPIC_*", "CLAUDE_*", "IS_SANDBOX", "API_TIMEOUT_MS", "DISABLE_*", "ENABLE_*"),
        *("MAX_THINKING_TOKENS", "MAX_MCP_OUTPUT_TOKENS", "BASH_*", "MCP_*", "OTEL_*"),
        # Models on Bedrock and Vertex.
        *("AWS_*", "GOOGLE_*", "GCLOUD_PROJECT", "CLOUD_ML_REGION", "VERTEX_*"),
    ),
    state=("${CLAUDE_CONFIG_DIR:-~/.claude}", "${CLAUDE_CONFIG_DIR:-~}/.claude.json"),
    retries=3,
    retry_variables=("CLAUDE_CODE_MAX_RETRIES",),
    output="claude",
    lost_session_patterns=("No conversation found",),
)
