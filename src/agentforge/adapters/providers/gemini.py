"""Gemini CLI: `gemini`, with the prompt on stdin; and its output, `stream-json`. Its exit status is an HTTP
status modulo 256."""

from collections.abc import Sequence

from agentforge.adapters import known_models
from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.cli_agents.failures import STATUSES
from agentforge.adapters.cli_agents.stream import (
    OutputLine,
    Reading,
    ReportedError,
    error_line,
    json_line,
    mapping_at,
    number_at,
    one_line,
    text_at,
    tool_line,
)
from agentforge.model.failure import FailureKind
from agentforge.model.result import Usage
from agentforge.ports.provider import Exit

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
    models=("auto", "pro", "flash", "flash-lite", *known_models.GOOGLE),
    any_model_with=("GOOGLE_GEMINI_BASE_URL",),
    resume_arguments=("--resume", "{session}"),
    addresses=("GOOGLE_GEMINI_BASE_URL",),
    remote_with=("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
    environment={
        # Otherwise it relaunches itself, and the parent doesn't forward signals.
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
    },
    passes=("GEMINI_*", "GOOGLE_*", "CLOUDSDK_*"),
    state=("${GEMINI_CLI_HOME:-~}/.gemini",),
    output="gemini",
    lost_session_patterns=("Invalid session identifier", "No previous sessions found"),
    failures={
        # The per-minute limit reads like the daily one, except for the seconds.
        r"exceeded your current quota.*retry in [\d.]+s": FailureKind.PROVIDER_RATE_LIMITED,
        r"reached max session turns": FailureKind.AGENT_LIMIT,
        r"not running in a trusted directory": FailureKind.PERMISSION_DENIED,
        r"stream ended without a finish reason": FailureKind.PROVIDER_UNREACHABLE,
        # Its error for a connection that broke in the middle of an answer.
        r"^terminated$": FailureKind.PROVIDER_UNREACHABLE,
    },
)


TYPES = frozenset({"init", "message", "tool_use", "tool_result", "error", "result"})
API_ERROR = "[API Error: "


class GeminiStream:
    def is_event(self, event: OutputLine) -> bool:
        return text_at(event, "type") in TYPES and "timestamp" in event

    def read(self, events: Sequence[OutputLine], exit: Exit) -> Reading:
        texts = _texts(events)
        last = next((event for event in reversed(events) if event["type"] == "result"), {})
        failed = text_at(last, "status") != "success"
        return Reading(
            finished=bool(last),
            answer=texts[-1] if texts and not failed else "",
            texts=texts,
            error=_reported_error(last, events, exit) if failed else None,
            usage=_usage(events, last, exit),
        )

    def progress(self, event: OutputLine) -> str:
        match event.get("type"):
            case "message" if event.get("role") == "assistant":
                return one_line(text_at(event, "content"))
            case "tool_use":
                return tool_line(text_at(event, "tool_name"), mapping_at(event, "parameters"))
            case "tool_result" if event.get("status") == "error":
                return error_line(text_at(event, "error", "message") or text_at(event, "output"))
            case "error":
                return error_line(text_at(event, "message"))
            case "result" if text_at(event, "error", "message"):
                return error_line(_plain(text_at(event, "error", "message")))
        return ""


def _texts(events: Sequence[OutputLine]) -> list[str]:
    """The agent's texts between tool calls, joined from their chunks."""
    texts: list[list[str]] = [[]]
    for event in events:
        if event["type"] == "message" and event.get("role") == "assistant":
            texts[-1].append(text_at(event, "content"))
        elif texts[-1]:
            texts.append([])
    return [text for pieces in texts if (text := "".join(pieces))]


def _reported_error(last: OutputLine, events: Sequence[OutputLine], exit: Exit) -> ReportedError | None:
    message = text_at(last, "error", "message")
    if message:
        status = number_at(json_line(_inner(message)), "error", "code")
        # Its exit status is the HTTP status modulo 256.
        rest = exit.exit_code or 0
        by_exit = next((status for status in STATUSES if rest > 1 and status % 256 == rest), None)
        return ReportedError(_plain(message), status=status or by_exit)
    said = (text_at(event, "message") for event in reversed(events) if event["type"] == "error")
    message = next(said, "no reason given" if last else "")
    return ReportedError(message) if message else None


def _plain(message: str) -> str:
    inner = _inner(message)
    return text_at(json_line(inner), "error", "message") or inner


def _inner(message: str) -> str:
    """The message inside the brackets, and any advice that follows them."""
    inside, closed, advice = message.removeprefix(API_ERROR).rpartition("]")
    return f"{inside} {advice.strip()}".strip() if closed else message


def _usage(events: Sequence[OutputLine], last: OutputLine, exit: Exit) -> Usage | None:
    first = next((event for event in events if event["type"] == "init"), {})
    stats = mapping_at(last, "stats")
    # Without a first answer, the CLI has not stored the session: there is nothing to resume.
    used = any(event["type"] == "tool_use" for event in events) or number_at(stats, "total_tokens")
    session = text_at(first, "session_id") if used or not stats else ""
    model = text_at(first, "model") or exit.model or None
    if not stats:
        return Usage(model=model, agent_session=session) if session else None
    return Usage(
        input_tokens=number_at(stats, "input_tokens"),
        output_tokens=number_at(stats, "output_tokens"),
        cached_tokens=number_at(stats, "cached"),
        model=model,
        agent_session=session or None,
    )
