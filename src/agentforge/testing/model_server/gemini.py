"""Gemini generateContent: POST /v1beta/models/MODEL:generateContent, or :streamGenerateContent."""

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

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    529: "UNAVAILABLE",
}


def read(body: JSON) -> ModelConversation:
    declared = [
        declaration
        for tool in body.get("tools") or ()
        for declaration in tool.get("functionDeclarations") or tool.get("function_declarations") or ()
    ]
    tools = {d["name"]: Tool(d["name"], _properties(d)) for d in declared}
    prompts, replies, results = [], [], []
    for content in body.get("contents") or ():
        parts = content.get("parts") or []
        said = texts([part for part in parts if not part.get("thought")])
        calls = tuple(part["functionCall"]["name"] for part in parts if "functionCall" in part)
        returned = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if content.get("role") == "model":
            replies.append(Reply(said, calls))
        elif said:
            prompts.append(said)
        results += [texts(response.get("response")) for response in returned]
    return ModelConversation(tools, tuple(prompts), tuple(replies), tuple(results))


def _properties(declaration: JSON) -> JSON:
    return properties(declaration.get("parametersJsonSchema") or declaration.get("parameters"))


def whole(answer: ModelAnswer) -> JSON:
    said = [{"text": answer.text}] if answer.text else []
    return _response(answer, [*said, *_calls(answer)], is_last=True)


def stream(answer: ModelAnswer, _: JSON) -> Iterator[bytes]:
    parts = [{"text": piece} for piece in pieces(answer.text)] + _calls(answer)
    for number, part in enumerate(parts, 1):
        yield event(_response(answer, [part], is_last=number == len(parts)))


def refusal(fault: Fault) -> JSON:
    status = fault.type or STATUSES.get(fault.status, "UNKNOWN")
    error = {"code": fault.status, "message": text_of_fault(fault), "status": status, **fault.details}
    return {"error": error}


def _response(answer: ModelAnswer, parts: list[JSON], *, is_last: bool) -> JSON:
    candidate: JSON = {"index": 0, "content": {"role": "model", "parts": parts}}
    if is_last:
        candidate["finishReason"] = "STOP"
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(answer),
        "modelVersion": answer.model,
        "responseId": answer.id,
    }


def _calls(answer: ModelAnswer) -> list[JSON]:
    return [{"functionCall": {"name": call.name, "args": call.arguments}} for call in answer.calls]


def _usage(answer: ModelAnswer) -> JSON:
    tokens = answer.usage
    return {
        "promptTokenCount": tokens.input,
        "candidatesTokenCount": tokens.output,
        "totalTokenCount": tokens.input + tokens.output,
        "cachedContentTokenCount": tokens.cached,
    }


GEMINI = WireFormat("gemini", r":(generate|streamGenerate)Content$", read, whole, stream, refusal)
