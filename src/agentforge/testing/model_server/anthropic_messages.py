"""Anthropic Messages: POST /v1/messages."""

import json
from collections.abc import Iterator

from agentforge.testing.model_server.script import Fault
from agentforge.testing.model_server.wire import (
    JSON,
    ModelAnswer,
    ModelConversation,
    Reply,
    Tool,
    WireFormat,
    event,
    pieces,
    properties,
    text_of_fault,
    texts,
)

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def read(body: JSON) -> ModelConversation:
    offered = [
        Tool(t["name"], properties(t.get("input_schema"))) for t in body.get("tools") or () if "name" in t
    ]
    prompts, replies, results = [], [], []
    for message in body.get("messages") or ():
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        returned = [block for block in blocks if block.get("type") == "tool_result"]
        said = texts([block for block in blocks if block.get("type") == "text"])
        if message["role"] == "assistant":
            calls = tuple(block["name"] for block in blocks if block.get("type") == "tool_use")
            replies.append(Reply(said, calls))
        elif said:
            prompts.append(said)
        results += [texts(block) for block in returned]
    return ModelConversation(
        {tool.name: tool for tool in offered}, tuple(prompts), tuple(replies), tuple(results)
    )


def whole(answer: ModelAnswer) -> JSON:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": _content(answer),
        "stop_reason": _stop_reason(answer),
        "stop_sequence": None,
        "usage": _usage(answer),
    }


def stream(answer: ModelAnswer, _: JSON) -> Iterator[bytes]:
    # The final number of output tokens comes with the last event only.
    started = {
        **whole(answer),
        "content": [],
        "stop_reason": None,
        "usage": {**_usage(answer), "output_tokens": 1},
    }
    yield _event("message_start", message=started)
    for index, block in enumerate(_content(answer)):
        if block["type"] == "text":
            empty, deltas = {**block, "text": ""}, [_text_delta(piece) for piece in pieces(block["text"])]
        else:
            empty = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ending = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
    yield _event("message_delta", delta=ending, usage=_usage(answer))
    yield _event("message_stop")


def refusal(fault: Fault) -> JSON:
    kind = fault.type or TYPES.get(fault.status, "api_error")
    error = {"type": kind, "message": text_of_fault(fault), **fault.details}
    return {"type": "error", "error": error, "request_id": "req_scripted"}


def _content(answer: ModelAnswer) -> list[JSON]:
    said = [{"type": "text", "text": answer.text}] if answer.text else []
    used = [
        {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.arguments}
        for call in answer.calls
    ]
    return [*said, *used]


def _stop_reason(answer: ModelAnswer) -> str:
    return "tool_use" if answer.calls else "end_turn"


def _usage(answer: ModelAnswer) -> JSON:
    return {
        "input_tokens": answer.usage.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.usage.cached,
        "output_tokens": answer.usage.output,
    }


def _text_delta(piece: str) -> JSON:
    return {"type": "text_delta", "text": piece}


def _event(type: str, **data: object) -> bytes:
    return event({"type": type, **data}, type)


ANTHROPIC_MESSAGES = WireFormat("anthropic-messages", r"/messages$", read, whole, stream, refusal)
