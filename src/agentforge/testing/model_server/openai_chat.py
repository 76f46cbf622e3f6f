"""OpenAI Chat Completions: POST /v1/chat/completions. Most local model servers speak it."""

import json
from collections.abc import Iterator

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
    refusal,
    texts,
)

CREATED = 1_700_000_000


def read(body: JSON) -> ModelConversation:
    functions = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    tools = {f["name"]: Tool(f["name"], properties(f.get("parameters"))) for f in functions}
    prompts, replies, results = [], [], []
    for message in body.get("messages") or ():
        said = texts(message.get("content"))
        match message["role"]:
            case "assistant":
                calls = (call["function"]["name"] for call in message.get("tool_calls") or ())
                replies.append(Reply(said, tuple(calls)))
            case "user":
                prompts.append(said)
            case "tool":
                results.append(said)
    return ModelConversation(tools, tuple(prompts), tuple(replies), tuple(results))


def whole(answer: ModelAnswer) -> JSON:
    message: JSON = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = _calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
    return {**_head(answer), "object": "chat.completion", "choices": [choice], "usage": _usage(answer)}


def stream(answer: ModelAnswer, body: JSON) -> Iterator[bytes]:
    yield _chunk(answer, {"role": "assistant", "content": ""})
    for piece in pieces(answer.text):
        yield _chunk(answer, {"content": piece})
    for index, call in enumerate(_calls(answer)):
        function = call["function"]
        started = {**call, "index": index, "function": {**function, "arguments": ""}}
        yield _chunk(answer, {"tool_calls": [started]})
        rest = {"index": index, "function": {"arguments": function["arguments"]}}
        yield _chunk(answer, {"tool_calls": [rest]})
    yield _chunk(answer, {}, _finish_reason(answer))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield event({**_head(answer), "object": CHUNK, "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


CHUNK = "chat.completion.chunk"


def _chunk(answer: ModelAnswer, delta: JSON, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return event({**_head(answer), "object": CHUNK, "choices": [choice]})


def _head(answer: ModelAnswer) -> JSON:
    return {"id": f"chatcmpl-{answer.id}", "created": CREATED, "model": answer.model}


def _calls(answer: ModelAnswer) -> list[JSON]:
    return [
        {
            "id": f"call_{call.id}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in answer.calls
    ]


def _finish_reason(answer: ModelAnswer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _usage(answer: ModelAnswer) -> JSON:
    tokens = answer.usage
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    }


OPENAI_CHAT = WireFormat("openai-chat", r"/chat/completions$", read, whole, stream, refusal)
