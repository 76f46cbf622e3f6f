"""Gemini CLI: `gemini`, with the prompt on stdin and its stream of events as output."""

from agentforge.adapters.providers.agent_cli import AgentCli
from agentforge.model.failure import FailureKind

GEMINI = AgentCli(
    name="gemini",
    title="Gemini",
    install="npm install -g @google/gemini-cli",
    log_in="run `gemini` once and log in",
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
    logins=("~/.gemini/oauth_creds.json",),
    arguments=("--output-format", "stream-json"),
    permission_arguments=("--approval-mode", "yolo", "--skip-trust"),
    model_arguments=("--model", "{model}"),
    resume_arguments=("--resume", "{session}"),
    environment={
        # Otherwise it starts itself once more, and the first one doesn't pass signals on.
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
    },
    passes=("GEMINI_*", "GOOGLE_*", "CLOUDSDK_*"),
    state=("${GEMINI_CLI_HOME:-~}/.gemini",),
    output="gemini",
    lost_session_patterns=("Invalid session identifier", "No previous sessions found"),
    failures={
        # The limit of a minute reads like that of a day, apart from the seconds.
        r"exceeded your current quota.*retry in [\d.]+s": FailureKind.PROVIDER_RATE_LIMITED,
        r"reached max session turns": FailureKind.AGENT_LIMIT,
        r"not running in a trusted directory": FailureKind.PERMISSION_DENIED,
        r"stream ended without a finish reason": FailureKind.PROVIDER_UNREACHABLE,
        # What it says of a connection that broke in the middle of an answer.
        r"^terminated$": FailureKind.PROVIDER_UNREACHABLE,
    },
)
