"""opencode: `opencode run`, with the prompt on stdin; models are written `provider/model`. Its output has no
final event: the reason of the last step replaces it."""

from collections.abc import Sequence

from agentforge.adapters import known_models
from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.cli_agents.stream import (
    OutputLine,
    Reading,
    ReportedError,
    error_line,
    mapping_at,
    money_at,
    number_at,
    one_line,
    text_at,
    tool_line,
)
from agentforge.model.result import Usage
from agentforge.ports.provider import Exit

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
    models=(
        *known_models.of_maker("anthropic", known_models.ANTHROPIC),
        *known_models.of_maker("openai", known_models.OPENAI),
        *known_models.of_maker("google", known_models.GOOGLE),
    ),
    effort_arguments=("--variant", "{effort}"),
    efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
    resume_arguments=("--session", "{session}"),
    environment={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_SHARE": "1"},
    remote_with=("--model", "-m", "--agent", "--attach"),
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
    # Its retries can't be limited, and it prints nothing while it can't reach a model.
    idle_timeout=900.0,
    output="opencode",
    lost_session_patterns=("Session not found",),
)


TYPES = frozenset({"step_start", "step_finish", "text", "reasoning", "tool_use", "error"})
# After these the CLI would have called the model again.
NOT_THE_END = frozenset({"tool-calls", "unknown", ""})
NO_REASON = "Unexpected server error"


class OpencodeStream:
    def is_event(self, event: OutputLine) -> bool:
        return text_at(event, "type") in TYPES and ("sessionID" in event or event["type"] == "error")

    def read(self, events: Sequence[OutputLine], exit: Exit) -> Reading:
        texts = [text_at(event, "part", "text") for event in events if event["type"] == "text"]
        last = next((event for event in reversed(events) if event["type"] in ("step_finish", "error")), {})
        failed = last.get("type") == "error"
        reason = text_at(last, "part", "reason")
        finished = failed or reason not in NOT_THE_END
        return Reading(
            finished=finished,
            answer=texts[-1] if texts and finished and not failed else "",
            texts=texts,
            error=_reported_error(last) if failed else None,
            usage=_usage(events, exit),
        )

    def progress(self, event: OutputLine) -> str:
        match event.get("type"):
            case "text":
                return one_line(text_at(event, "part", "text"))
            case "tool_use":
                tool, state = text_at(event, "part", "tool"), mapping_at(event, "part", "state")
                if state.get("status") == "error":
                    return error_line(f"{tool}: {text_at(state, 'error')}")
                return tool_line(tool, mapping_at(state, "input"))
            case "error":
                return error_line(_reported_error(event).message)
        return ""


def _reported_error(event: OutputLine) -> ReportedError:
    data = mapping_at(event, "error", "data")
    message = text_at(data, "message") or text_at(event, "error", "name") or "no reason given"
    if message.startswith(NO_REASON):
        # opencode's error for an unknown model.
        message += (
            " Check that the model is written as `provider/model` and is in its list (`opencode models`)."
        )
    return ReportedError(message, status=number_at(data, "statusCode") or None)


def _usage(events: Sequence[OutputLine], exit: Exit) -> Usage | None:
    session = next((found for event in events if (found := text_at(event, "sessionID"))), "")
    steps = [event for event in events if event["type"] == "step_finish"]
    if not steps:
        return Usage(model=exit.model or None, agent_session=session) if session else None
    tokens = [mapping_at(step, "part", "tokens") for step in steps]
    cached = sum(number_at(used, "cache", "read") for used in tokens)
    fresh = sum(number_at(used, "input") + number_at(used, "cache", "write") for used in tokens)
    return Usage(
        input_tokens=fresh + cached,
        output_tokens=sum(number_at(used, "output") + number_at(used, "reasoning") for used in tokens),
        cached_tokens=cached,
        # opencode reports a cost of 0 for a model without a known price.
        cost_usd=sum(money_at(step, "part", "cost") or 0.0 for step in steps) or None,
        model=exit.model or None,
        agent_session=session or None,
    )
