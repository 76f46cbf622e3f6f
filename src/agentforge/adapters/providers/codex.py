"""Codex: `codex exec`, with the prompt on stdin and a reasoning effort, as in `gpt-5.5:high`; and its
output, `--json`."""

import re
from collections.abc import Sequence

from agentforge.adapters import known_models
from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.cli_agents.stream import (
    OutputLine,
    Reading,
    ReportedError,
    error_line,
    json_line,
    mapping_at,
    number_at,
    objects_at,
    one_line,
    retry_line,
    text_at,
)
from agentforge.model.failure import FailureKind
from agentforge.model.result import Usage
from agentforge.ports.provider import Exit

# Without it the agent may end its turn with a question, or wait for the next message.
EXIT_INSTRUCTION = """

---

You are a step of an automated pipeline: no person is watching and no further message will come. Decide for
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
    own_sandbox_unless=("--dangerously-bypass-approvals-and-sandbox", "danger-full-access"),
    model_arguments=("--model", "{model}"),
    models=known_models.CODEX,
    default_model="gpt-5.5",
    model_variable="CODEX_MODEL",
    effort_arguments=("-c", "model_reasoning_effort={effort}"),
    efforts=("xhigh", "high", "medium", "low", "minimal"),
    default_effort="high",
    effort_variable="CODEX_REASONING_EFFORT",
    resume_arguments=("resume", "{session}"),
    remote_with=("--profile", "-p"),
    passes=("CODEX_*", "OPENAI_*", "AZURE_OPENAI_*", "OLLAMA_*", "RUST_LOG"),
    state=("${CODEX_HOME:-~/.codex}",),
    retries=3,
    # The retries of codex's built-in providers can't be changed.
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


TYPES = frozenset({"error", "thread.started"})
PREFIXES = ("turn.", "item.")
RECONNECTING = re.compile(r"Reconnecting\.\.\. [^(]*+\((.*)\)", re.DOTALL)


class CodexStream:
    def is_event(self, event: OutputLine) -> bool:
        kind = event.get("type")
        return isinstance(kind, str) and (kind in TYPES or kind.startswith(PREFIXES))

    def read(self, events: Sequence[OutputLine], exit: Exit) -> Reading:
        texts = [
            text_at(event, "item", "text")
            for event in events
            if event["type"] == "item.completed" and text_at(event, "item", "type") == "agent_message"
        ]
        last = next((event for event in reversed(events) if event["type"].startswith("turn.")), {})
        finished = last.get("type") in ("turn.completed", "turn.failed")
        error = None
        if last.get("type") != "turn.completed":
            # An error that other events follow was recovered from.
            said = text_at(events[-1], "message") if events[-1]["type"] == "error" else ""
            error = _reported_error(text_at(last, "error", "message") or said)
        return Reading(
            finished=finished,
            answer=texts[-1] if texts and error is None else "",
            texts=texts,
            error=error,
            usage=_usage(events, last, exit),
        )

    def progress(self, event: OutputLine) -> str:
        match event.get("type"):
            case "error":
                message = text_at(event, "message")
                found = RECONNECTING.match(message)
                return retry_line(found[1]) if found else error_line(_plain(message))
            case "item.started" | "item.completed":
                return _item_line(mapping_at(event, "item"), begins=event["type"] == "item.started")
        # A turn's failure repeats the error before it.
        return ""


def _item_line(item: OutputLine, *, begins: bool) -> str:
    match item.get("type"):
        case "agent_message":
            return one_line(text_at(item, "text"))
        case "error":
            return one_line(f"! {one_line(text_at(item, 'message'))}")
        case "command_execution" if begins:
            return one_line(f"→ shell: {_bare(text_at(item, 'command'))}")
        case "command_execution" if number_at(item, "exit_code"):
            return error_line(f"exit {number_at(item, 'exit_code')}: {_bare(text_at(item, 'command'))}")
        case "file_change" if begins:
            paths = ", ".join(text_at(change, "path") for change in objects_at(item, "changes"))
            return one_line(f"→ edit: {paths}")
        case "mcp_tool_call" if begins:
            return one_line(f"→ {text_at(item, 'server')}.{text_at(item, 'tool')}")
        case "web_search" if begins:
            return one_line(f"→ search: {text_at(item, 'query')}")
    return ""


def _bare(command: str) -> str:
    """The command without the shell that runs it."""
    found = re.fullmatch(r"\S*/(?:ba|z|da)?sh -l?c (.*)", command, re.DOTALL)
    return (found[1] if found else command).strip("\"'")


def _reported_error(message: str) -> ReportedError | None:
    if not message:
        return None
    found, answer = RECONNECTING.match(message), json_line(message)
    status = number_at(answer, "error", "code") or number_at(answer, "status") or None
    return ReportedError(_plain(found[1] if found else message), status=status)


def _plain(message: str) -> str:
    """The server's message, if the message is a complete API response."""
    answer = json_line(message)
    return text_at(answer, "error", "message") or message


def _usage(events: Sequence[OutputLine], last: OutputLine, exit: Exit) -> Usage | None:
    session = next((text_at(event, "thread_id") for event in events if event.get("thread_id")), "")
    used = mapping_at(last, "usage")
    if not used:
        return Usage(model=exit.model or None, agent_session=session) if session else None
    # Its counts are cumulative for the whole thread.
    before = exit.before or Usage()
    return Usage(
        input_tokens=max(0, number_at(used, "input_tokens") - (before.input_tokens or 0)),
        output_tokens=max(0, number_at(used, "output_tokens") - (before.output_tokens or 0)),
        cached_tokens=max(0, number_at(used, "cached_input_tokens") - (before.cached_tokens or 0)),
        model=exit.model or None,
        agent_session=session or None,
    )
