"""What opencode prints with `run --format json`. It has no last event: the last step's reason has to do."""

from collections.abc import Sequence

from agentforge.adapters.providers.stream import (
    Complaint,
    Event,
    Reading,
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

TYPES = frozenset({"step_start", "step_finish", "text", "reasoning", "tool_use", "error"})
# After these the model would have been asked again.
NOT_THE_END = frozenset({"tool-calls", "unknown", ""})
NO_REASON = "Unexpected server error"


class OpencodeStream:
    def is_event(self, event: Event) -> bool:
        return event.get("type") in TYPES and ("sessionID" in event or event["type"] == "error")

    def read(self, events: Sequence[Event], exit: Exit) -> Reading:
        texts = [text_at(event, "part", "text") for event in events if event["type"] == "text"]
        last = next((event for event in reversed(events) if event["type"] in ("step_finish", "error")), {})
        failed = last.get("type") == "error"
        reason = text_at(last, "part", "reason")
        finished = failed or reason not in NOT_THE_END
        return Reading(
            finished=finished,
            answer=texts[-1] if texts and finished and not failed else "",
            texts=texts,
            complaint=_complaint(last) if failed else None,
            usage=_usage(events, exit),
        )

    def progress(self, event: Event) -> str:
        match event.get("type"):
            case "text":
                return one_line(text_at(event, "part", "text"))
            case "tool_use":
                return _tool(mapping_at(event, "part"))
            case "error":
                return error_line(_complaint(event).message)
        return ""


def _tool(part: Event) -> str:
    state = mapping_at(part, "state")
    if state.get("status") == "error":
        return error_line(f"{text_at(part, 'tool')}: {text_at(state, 'error')}")
    return tool_line(text_at(part, "tool"), mapping_at(state, "input"))


def _complaint(event: Event) -> Complaint:
    data = mapping_at(event, "error", "data")
    message = text_at(data, "message") or text_at(event, "error", "name") or "no reason given"
    if message.startswith(NO_REASON):
        # It is what opencode says of a model that it doesn't know.
        message += (
            " Check that the model is written as `provider/model` and is in its list (`opencode models`)."
        )
    return Complaint(message, status=number_at(data, "statusCode") or None)


def _usage(events: Sequence[Event], exit: Exit) -> Usage | None:
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
        # A model without a price costs nothing by its count, which isn't known to be true.
        cost_usd=sum(money_at(step, "part", "cost") or 0.0 for step in steps) or None,
        model=exit.model or None,
        agent_session=session or None,
    )
