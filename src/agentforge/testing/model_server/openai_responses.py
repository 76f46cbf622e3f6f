"""OpenAI Responses: POST /v1/responses."""

import json
from collections.abc import Iterable, Iterator
from itertools import count

from agentforge.testing.model_server.wire import (
    JSON,
    ModelAnswer,
    ModelConversation,
    Reply,
    RequestedCall,
    Tool,
    WireFormat,
    event,
    pieces,
    properties,
    refusal,
    texts,
)

CREATED = 1_700_000_000


def read(body: JSON) -> ModelConversation:
    items = body.get("input") or []
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    offered = dict(_tools(body.get("tools") or ()))
    prompts: list[str] = []
    replies: list[Reply] = []
    results: list[str] = []
    in_reply = False
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        if kind == "additional_tools":
            # Codex also declares tools within the conversation.
            offered |= dict(_tools(item.get("tools") or ()))
        elif kind.endswith("_call") or role == "assistant":
            # The items of one response are adjacent.
            earlier = replies.pop() if in_reply else Reply()
            replies.append(_longer(earlier, item))
            in_reply = True
        elif kind != "reasoning":
            in_reply = False
            if role == "user":
                prompts.append(texts(item))
            elif kind.endswith("_output"):
                results.append(texts(item))
    return ModelConversation(offered, tuple(prompts), tuple(replies), tuple(results))


def _tools(listed: Iterable[JSON]) -> Iterator[tuple[str, Tool]]:
    for tool in listed:
        if tool.get("type") == "namespace":
            yield from _tools(tool.get("tools") or ())
        elif "name" in tool:
            name = str(tool["name"])
            yield (
                name,
                Tool(name, properties(tool.get("parameters")), is_freeform=tool.get("type") == "custom"),
            )


def _longer(reply: Reply, item: JSON) -> Reply:
    if item.get("type", "message") == "message":
        return Reply(reply.text + texts(item), reply.calls)
    return Reply(reply.text, (*reply.calls, str(item.get("name") or item["type"])))


def whole(answer: ModelAnswer) -> JSON:
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": CREATED,
        "status": "completed",
        "model": answer.model,
        "output": _output(answer),
        "usage": _usage(answer),
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    }


def stream(answer: ModelAnswer, _: JSON) -> Iterator[bytes]:
    response, numbers = whole(answer), count()
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    steps: list[tuple[str, JSON]] = [("response.created", {"response": started})]
    for index, item in enumerate(response["output"]):
        steps += ((name, {"output_index": index, **data}) for name, data in _item_steps(item))
    steps.append(("response.completed", {"response": response}))
    for name, data in steps:
        yield event({"type": name, "sequence_number": next(numbers), **data}, name)


def _item_steps(item: JSON) -> Iterator[tuple[str, JSON]]:
    """The stream events of one output item."""
    if item["type"] == "message":
        yield from _message_steps(item)
    elif item["type"] == "function_call":
        yield from _call_steps(item, "arguments", "response.function_call_arguments")
    else:
        yield from _call_steps(item, "input", "response.custom_tool_call_input")
    yield "response.output_item.done", {"item": item}


def _message_steps(item: JSON) -> Iterator[tuple[str, JSON]]:
    (part,) = item["content"]
    where = {"item_id": item["id"], "content_index": 0}
    yield "response.output_item.added", {"item": {**item, "status": "in_progress", "content": []}}
    yield "response.content_part.added", {**where, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield "response.output_text.delta", {**where, "delta": piece}
    yield "response.output_text.done", {**where, "text": part["text"]}
    yield "response.content_part.done", {**where, "part": part}


def _call_steps(item: JSON, member: str, name: str) -> Iterator[tuple[str, JSON]]:
    yield "response.output_item.added", {"item": {**item, "status": "in_progress", member: ""}}
    yield f"{name}.delta", {"item_id": item["id"], "delta": item[member]}
    yield f"{name}.done", {"item_id": item["id"], member: item[member]}


def _output(answer: ModelAnswer) -> list[JSON]:
    calls = [_call(call) for call in answer.calls]
    if not answer.text:
        return calls
    part = {"type": "output_text", "text": answer.text, "annotations": []}
    message = {"type": "message", "id": f"msg_{answer.id}", "role": "assistant", "status": "completed"}
    return [{**message, "content": [part]}, *calls]


def _call(call: RequestedCall) -> JSON:
    about = {"call_id": f"call_{call.id}", "name": call.name, "status": "completed"}
    if isinstance(call.arguments, str):
        return {"type": "custom_tool_call", "id": f"ctc_{call.id}", "input": call.arguments, **about}
    return {"type": "function_call", "id": f"fc_{call.id}", "arguments": json.dumps(call.arguments), **about}


def _usage(answer: ModelAnswer) -> JSON:
    tokens = answer.usage
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.input + tokens.output,
    }


OPENAI_RESPONSES = WireFormat("openai-responses", r"/responses$", read, whole, stream, refusal)
