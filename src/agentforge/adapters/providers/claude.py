"""Claude Code: `claude --print`, with the prompt on stdin; and its output, `stream-json --verbose`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from agentforge.adapters import known_models
from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.cli_agents.failures import from_epoch
from agentforge.adapters.cli_agents.stream import (
    OutputLine,
    Reading,
    ReportedError,
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
from agentforge.model.result import JSONObject, Usage
from agentforge.ports.provider import Exit

# The CLI ends at the call: a result that isn't written by then is missing. Without a call, it asks for one.
SCHEMA_INSTRUCTION = """

---

The tool StructuredOutput takes the same object as the artifact's file, which you then needn't write. A valid
call ends your work at once: write your result and all other files before it.
"""

CLAUDE = AgentCli(
    name="claude",
    title="Claude",
    install="npm install -g @anthropic-ai/claude-code",
    log_in="run `claude` once and log in",
    keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK"),
    logins=("$CLAUDE_CONFIG_DIR:~/.claude/.credentials.json",),
    arguments=("--print", "--output-format", "stream-json", "--verbose"),
    permission_arguments=("--dangerously-skip-permissions",),
    guarded_unless=("--dangerously-skip-permissions", "bypassPermissions"),
    model_arguments=("--model", "{model}"),
    models=(
        *("opus", "sonnet", "haiku", "opusplan", "default", "opus[[]1m]", "sonnet[[]1m]"),
        *(*known_models.ANTHROPIC, "*anthropic.claude-*"),
    ),
    any_model_with=("ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"),
    # Mapped to names that the CLI resolves itself; it validates all other names.
    aliases={"claude-opus": "opus", "claude-sonnet": "sonnet", "claude-haiku": "haiku"},
    effort_arguments=("--effort", "{effort}"),
    efforts=("low", "medium", "high", "xhigh", "max"),
    resume_arguments=("--resume", "{session}"),
    schema_arguments=("--json-schema", "{schema}"),
    schema_suffix=SCHEMA_INSTRUCTION,
    budget_arguments=("--max-budget-usd", "{budget}"),
    # For others, it makes up a cost.
    priced_models=("*claude*", "opus*", "sonnet*", "haiku*", "default"),
    addresses=("ANTHROPIC_BASE_URL",),
    remote_with=(
        *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
        "--settings",
    ),
    environment={
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
    # As root, the CLI skips permission checks only if it is told that it is in a sandbox.
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
STOPPED_BY = {
    "error_max_turns": FailureKind.AGENT_LIMIT,
    "error_max_budget_usd": FailureKind.CAP_REACHED,
    "error_max_structured_output_retries": FailureKind.ARTIFACT_INVALID,
}
"""By the subtype of the last event, which says what stopped the agent."""

# In these modes a denial is intended; in the others a person would have been asked.
DECIDED_MODES = frozenset({"bypassPermissions", "dontAsk"})
ALLOW = (
    "allow them with `permissions` in the provider's config "
    "(such as [--dangerously-skip-permissions]) or in the project's .claude/settings.json"
)


class ClaudeStream:
    def is_event(self, event: OutputLine) -> bool:
        return text_at(event, "type") in TYPES

    def read(self, events: Sequence[OutputLine], exit: Exit) -> Reading:
        # There are several if a background task woke the agent again.
        results = [event for event in events if event["type"] == "result"]
        texts = [text for event in events for text in _texts(event)]
        session = next((found for event in events if (found := text_at(event, "session_id"))), "")
        usage = _usage(results, session, exit)
        if not results:
            error, last = None, events[-1] if events else {}
            if last.get("subtype") == "api_retry":
                # It stopped while it was retrying a call of the API.
                error = ReportedError(text_at(last, "error"), status=number_at(last, "error_status") or None)
            return Reading(texts=texts, error=error, usage=usage)
        last, returned = results[-1], [event for event in results if _artifact(event) is not None]
        return Reading(
            finished=True,
            # With an artifact, the result is this as JSON.
            answer=texts[-1] if texts and last in returned else text_at(last, "result"),
            artifact=_artifact(returned[-1]) if returned else None,
            texts=texts,
            error=_reported_error(last, events),
            usage=usage,
        )

    def progress(self, event: OutputLine) -> str:
        match event.get("type"):
            case "assistant":
                return " ".join(filter(None, map(_item_text, objects_at(event, "message", "content"))))
            case "user":
                failed = (item for item in objects_at(event, "message", "content") if item.get("is_error"))
                return next((error_line(text_at(item, "content")) for item in failed), "")
            case "system" if event.get("subtype") == "api_retry":
                status = number_at(event, "error_status")
                return retry_line(f"{text_at(event, 'error')} {status or ''}".strip())
            case "system" if event.get("subtype") == "permission_denied":
                return error_line(f"{text_at(event, 'tool_name')} denied: {text_at(event, 'message')}")
            case "result":
                error = _reported_error(event, ())
                return error_line(error.message) if error else ""
        return ""


def _artifact(result: OutputLine) -> JSONObject | None:
    found = result.get("structured_output")
    return found if isinstance(found, dict) else None


def _texts(event: OutputLine) -> list[str]:
    if event["type"] != "assistant" or event.get("parent_tool_use_id"):
        return []
    return [text for item in objects_at(event, "message", "content") if (text := text_at(item, "text"))]


def _item_text(item: OutputLine) -> str:
    if item.get("type") == "tool_use":
        return tool_line(text_at(item, "name"), mapping_at(item, "input"))
    return one_line(text_at(item, "text"))


def _reported_error(last: OutputLine, events: Sequence[OutputLine]) -> ReportedError | None:
    errors = [error for error in last.get("errors") or () if isinstance(error, str)]
    message = "; ".join(errors) or text_at(last, "result") or text_at(last, "subtype")
    if (kind := STOPPED_BY.get(text_at(last, "subtype"))) is not None:
        return ReportedError(message, kind=kind)
    if last.get("is_error"):
        used_up = text_at(last, "api_error") == "usage_limit_reached"
        return ReportedError(
            message,
            status=number_at(last, "api_error_status") or None,
            kind=FailureKind.PROVIDER_QUOTA if used_up else None,
            resets_at=_resets_at(events),
        )
    return _denied(last, events)


def _denied(last: OutputLine, events: Sequence[OutputLine]) -> ReportedError | None:
    tools = sorted({text_at(denial, "tool_name") for denial in objects_at(last, "permission_denials")})
    mode = next((found for event in events if (found := text_at(event, "permissionMode"))), "")
    if not tools or mode in DECIDED_MODES:
        return None
    message = f"permission denied for {', '.join(tools)} (permission mode {mode!r}); {ALLOW}"
    return ReportedError(message, kind=FailureKind.PERMISSION_DENIED)


def _resets_at(events: Sequence[OutputLine]) -> datetime | None:
    for event in reversed(events):
        info = mapping_at(event, "rate_limit_info")
        seconds = number_at(info, "resetsAt")
        if info.get("status") == "rejected" and seconds:
            return from_epoch(seconds)
    return None


def _usage(results: Sequence[OutputLine], session: str, exit: Exit) -> Usage | None:
    used = [item for result in results for item in _by_model(result)]
    if not used:
        # An agent that was ended first reported nothing; one without a login, say, that it used nothing.
        count = 0 if results else None
        return Usage(count, count, model=exit.model or None, agent_session=session) if session else None
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
    # For a resumed session, `modelUsage` and the total cost are cumulative. Versions without the newer field
    # start from zero with each run.
    name = "model_usage_since_last_result"
    counts = mapping_at(result, name if name in result else "modelUsage")
    return [(model, used) for model, used in counts.items() if isinstance(used, dict)]


def _cost(used: Sequence[tuple[str, dict[str, Any]]]) -> float | None:
    """The cost, or None if the CLI doesn't know the model's price: then it reports a made-up one."""
    total = 0.0
    for model, counts in used:
        basis = text_at(counts, "costBasis")
        cost = money_at(counts, "costUSD")
        if cost is None or basis == "unknown" or (not basis and "claude" not in model):
            return None
        total += cost
    return total
