"""Claude Code: `claude --print`, with the prompt on stdin; and its output, `stream-json --verbose`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.cli_agents.stream import (
    Complaint,
    OutputLine,
    Reading,
    error_line,
    mapping_at,
    money_at,
    number_at,
    objects_at,
    one_line,
    retry_line,
    text_at,
    tool_line,
)
from agentforge.model.failure import FailureKind
from agentforge.model.result import Usage
from agentforge.ports.provider import Exit

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


TYPES = frozenset({"system", "assistant", "user", "result", "stream_event", "rate_limit_event"})
LIMITS = {"error_max_turns": "turns", "error_max_budget_usd": "budget"}
"""By the subtype of the last event: which of its own limits stopped it."""

# In these modes what is refused was meant to be refused; in the others somebody would have been asked.
DECIDED_MODES = frozenset({"bypassPermissions", "dontAsk"})
ALLOW = (
    "allow them with `permissions` in the provider's config "
    "(such as [--dangerously-skip-permissions]) or in the project's .claude/settings.json"
)


class ClaudeStream:
    def is_event(self, event: OutputLine) -> bool:
        return event.get("type") in TYPES

    def read(self, events: Sequence[OutputLine], exit: Exit) -> Reading:
        # There are several where the agent was woken again by what it had left running.
        results = [event for event in events if event["type"] == "result"]
        texts = [text for event in events for text in _texts(event)]
        session = next((found for event in events if (found := text_at(event, "session_id"))), "")
        usage = _usage(results, session, exit)
        if not results:
            return Reading(texts=texts, complaint=_trouble(events), usage=usage)
        return Reading(
            finished=True,
            answer=text_at(results[-1], "result"),
            texts=texts,
            complaint=_complaint(results[-1], events),
            usage=usage,
        )

    def progress(self, event: OutputLine) -> str:
        match event.get("type"):
            case "assistant":
                return " ".join(filter(None, map(_said, objects_at(event, "message", "content"))))
            case "user":
                failed = (item for item in objects_at(event, "message", "content") if item.get("is_error"))
                return next((error_line(text_at(item, "content")) for item in failed), "")
            case "system":
                return _system_line(event)
            case "result":
                complaint = _complaint(event, ())
                return error_line(complaint.message) if complaint else ""
        return ""


def _texts(event: OutputLine) -> list[str]:
    if event["type"] != "assistant" or event.get("parent_tool_use_id"):
        return []
    return [text for item in objects_at(event, "message", "content") if (text := text_at(item, "text"))]


def _said(item: OutputLine) -> str:
    if item.get("type") == "tool_use":
        return tool_line(text_at(item, "name"), mapping_at(item, "input"))
    return one_line(text_at(item, "text"))


def _system_line(event: OutputLine) -> str:
    match event.get("subtype"):
        case "api_retry":
            status = number_at(event, "error_status")
            return retry_line(f"{text_at(event, 'error')} {status or ''}".strip())
        case "permission_denied":
            return error_line(f"{text_at(event, 'tool_name')} wasn't allowed: {text_at(event, 'message')}")
    return ""


def _complaint(last: OutputLine, events: Sequence[OutputLine]) -> Complaint | None:
    errors = [error for error in last.get("errors") or () if isinstance(error, str)]
    message = "; ".join(errors) or text_at(last, "result") or text_at(last, "subtype")
    if text_at(last, "subtype") in LIMITS:
        return Complaint(message, kind=FailureKind.AGENT_LIMIT)
    if last.get("is_error"):
        used_up = text_at(last, "api_error") == "usage_limit_reached"
        return Complaint(
            message,
            status=number_at(last, "api_error_status") or None,
            kind=FailureKind.PROVIDER_QUOTA if used_up else None,
            resets_at=_resets_at(events),
        )
    return _denied(last, events)


def _denied(last: OutputLine, events: Sequence[OutputLine]) -> Complaint | None:
    tools = sorted({text_at(denial, "tool_name") for denial in objects_at(last, "permission_denials")})
    mode = next((found for event in events if (found := text_at(event, "permissionMode"))), "")
    if not tools or mode in DECIDED_MODES:
        return None
    message = f"the agent wasn't allowed to use {', '.join(tools)} (permission mode {mode!r}); {ALLOW}"
    return Complaint(message, kind=FailureKind.PERMISSION_DENIED)


def _trouble(events: Sequence[OutputLine]) -> Complaint | None:
    """What it was struggling with when it stopped: calls that it wanted to make again."""
    last = events[-1] if events else {}
    if last.get("subtype") != "api_retry":
        return None
    return Complaint(text_at(last, "error"), status=number_at(last, "error_status") or None)


def _resets_at(events: Sequence[OutputLine]) -> datetime | None:
    for event in reversed(events):
        info = mapping_at(event, "rate_limit_info")
        seconds = number_at(info, "resetsAt")
        if info.get("status") == "rejected" and seconds:
            return datetime.fromtimestamp(seconds, UTC)
    return None


def _usage(results: Sequence[OutputLine], session: str, exit: Exit) -> Usage | None:
    used = [item for result in results for item in _by_model(result)]
    if not used:
        return Usage(model=exit.model or None, agent_session=session) if session else None
    cached = sum(number_at(counts, "cacheReadInputTokens") for _, counts in used)
    created = sum(number_at(counts, "cacheCreationInputTokens") for _, counts in used)
    return Usage(
        input_tokens=sum(number_at(counts, "inputTokens") for _, counts in used) + created + cached,
        output_tokens=sum(number_at(counts, "outputTokens") for _, counts in used),
        cached_tokens=cached,
        cost_usd=_cost(used),
        model=max(used, key=lambda item: number_at(item[1], "outputTokens"))[0],
        agent_session=session or None,
    )


def _by_model(result: OutputLine) -> list[tuple[str, dict[str, Any]]]:
    # A session that is gone on with counts on in `modelUsage` and in the total cost. Versions that don't
    # know the newer field begin anew with each run.
    name = "model_usage_since_last_result"
    counts = mapping_at(result, name if name in result else "modelUsage")
    return [(model, used) for model, used in counts.items() if isinstance(used, dict)]


def _cost(used: Sequence[tuple[str, dict[str, Any]]]) -> float | None:
    """The price that it knows; for models that it doesn't know it makes one up."""
    total = 0.0
    for model, counts in used:
        basis = text_at(counts, "costBasis")
        cost = money_at(counts, "costUSD")
        if cost is None or basis == "unknown" or (not basis and "claude" not in model):
            return None
        total += cost
    return total
