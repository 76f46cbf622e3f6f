"""Plain HTTP clients of the model server: a request for a conversation, and what its answer says."""

import json
import re
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit


class Got:
    def __init__(self, status: int, headers: dict[str, str], text: str) -> None:
        self.status, self.headers, self.text = status, headers, text

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = re.findall(r"^data: (\{.*)$", self.text, re.MULTILINE)
        return [json.loads(line) for line in lines]


def ask(url: str, path: str, body: Any = None, method: str = "POST", seconds: float = 60.0) -> Got:
    parts = urlsplit(url)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=seconds)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, parts.path + path, content, {"x-api-key": "test-key"})
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Got(answer.status, headers, answer.read().decode())
    finally:
        connection.close()


class Anthropic:
    path = "/v1/messages"

    def body(self, *talk: Any, stream: bool = False, tools: bool = True) -> dict[str, Any]:
        """`talk`: prompts, and (text, tool) for what the model said."""
        messages: list[Any] = []
        for said in talk:
            if isinstance(said, str):
                messages.append({"role": "user", "content": [{"type": "text", "text": said}]})
                continue
            text, tool = said
            blocks: list[Any] = [{"type": "text", "text": text}]
            if tool:
                blocks.append({"type": "tool_use", "id": "t1", "name": tool, "input": {}})
            messages.append({"role": "assistant", "content": blocks})
            if tool:
                result = {"type": "tool_result", "tool_use_id": "t1", "content": "returned"}
                messages.append({"role": "user", "content": [result]})
        offered = [
            {"name": "Bash", "input_schema": {"properties": {"command": {}, "description": {}}}},
            {"name": "Write", "input_schema": {"properties": {"file_path": {}, "content": {}}}},
        ]
        return {"model": "m-1", "messages": messages, "stream": stream, "tools": offered if tools else []}

    def said(self, got: Got) -> tuple[str, list[tuple[str, Any]]]:
        blocks = got.json["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        return text, [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]

    def streamed(self, got: Got) -> tuple[str, list[tuple[str, Any]]]:
        assert [got.events[0]["type"], got.events[-1]["type"]] == ["message_start", "message_stop"]
        deltas = [event["delta"] for event in got.events if event["type"] == "content_block_delta"]
        inputs = [json.loads(delta["partial_json"]) for delta in deltas if "partial_json" in delta]
        begun = [event["content_block"] for event in got.events if event["type"] == "content_block_start"]
        names = [block["name"] for block in begun if block["type"] == "tool_use"]
        return "".join(delta.get("text", "") for delta in deltas), list(zip(names, inputs, strict=True))

    def used(self, got: Got) -> tuple[int, int, int]:
        usage = got.json["usage"]
        return usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]

    shell = ("Bash", {"command": "echo hello > hello.txt", "description": "Runs a command"})
    write = ("Write", {"file_path": "/tmp/work/result.json", "content": '{"summary": "done"}'})
    error = ("error", "type", "rate_limit_error")


class Chat:
    path = "/v1/chat/completions"

    def body(self, *talk: Any, stream: bool = False, tools: bool = True) -> dict[str, Any]:
        messages: list[Any] = [{"role": "system", "content": "You are an agent."}]
        for said in talk:
            if isinstance(said, str):
                messages.append({"role": "user", "content": said})
                continue
            text, tool = said
            calls = [{"id": "c", "type": "function", "function": {"name": tool, "arguments": "{}"}}]
            messages.append({"role": "assistant", "content": text} | ({"tool_calls": calls} if tool else {}))
            if tool:
                messages.append({"role": "tool", "tool_call_id": "c", "content": "returned"})
        functions = [
            {"name": "run_command", "parameters": {"properties": {"command": {"type": "string"}}}},
            {"name": "write_file", "parameters": {"properties": {"path": {}, "content": {}}}},
        ]
        offered = [{"type": "function", "function": function} for function in functions]
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return {"model": "m-1", "messages": messages, **options} | ({"tools": offered} if tools else {})

    def said(self, got: Got) -> tuple[str, list[tuple[str, Any]]]:
        message = got.json["choices"][0]["message"]
        functions = [call["function"] for call in message.get("tool_calls", ())]
        return message["content"] or "", [(f["name"], json.loads(f["arguments"])) for f in functions]

    def streamed(self, got: Got) -> tuple[str, list[tuple[str, Any]]]:
        assert got.text.endswith("data: [DONE]\n\n")
        assert got.events[-1]["usage"]["prompt_tokens"] == 1200
        deltas = [event["choices"][0]["delta"] for event in got.events if event["choices"]]
        functions = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
        names = [function["name"] for function in functions if "name" in function]
        rests = [json.loads(function["arguments"]) for function in functions if function["arguments"]]
        return "".join(delta.get("content", "") for delta in deltas), list(zip(names, rests, strict=True))

    def used(self, got: Got) -> tuple[int, int, int]:
        usage = got.json["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return usage["prompt_tokens"], usage["completion_tokens"], cached

    shell = ("run_command", {"command": "echo hello > hello.txt"})
    write = ("write_file", {"path": "/tmp/work/result.json", "content": '{"summary": "done"}'})
    error = ("error", "code", "rate_limit_exceeded")


class Responses:
    path = "/v1/responses"
    tools: tuple[dict[str, Any], ...] = (
        {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}},
        {"type": "custom", "name": "apply_patch"},
    )

    def body(self, *talk: Any, stream: bool = False, tools: bool = True) -> dict[str, Any]:
        items: list[Any] = []
        for said in talk:
            if isinstance(said, str):
                part = {"type": "input_text", "text": said}
                items.append({"type": "message", "role": "user", "content": [part]})
                continue
            text, tool = said
            part = {"type": "output_text", "text": text}
            items.append({"type": "reasoning", "summary": []})
            items.append({"type": "message", "role": "assistant", "content": [part]})
            if tool:
                items.append({"type": "function_call", "call_id": "c", "name": tool, "arguments": "{}"})
                items.append({"type": "function_call_output", "call_id": "c", "output": "returned"})
        offered = self.tools if tools else ()
        return {"model": "m-1", "input": items, "stream": stream, "tools": offered}

    def said(self, got: Got) -> tuple[str, list[tuple[str, Any]]]:
        return self._items(got.json["output"])

    def streamed(self, got: Got) -> tuple[str, list[tuple[str, Any]]]:
        assert [event["sequence_number"] for event in got.events] == list(range(len(got.events)))
        assert got.events[-1]["type"] == "response.completed"
        done = [event["item"] for event in got.events if event["type"] == "response.output_item.done"]
        deltas = [event for event in got.events if event["type"] == "response.output_text.delta"]
        text, calls = self._items(done)
        assert text == "".join(event["delta"] for event in deltas)
        return text, calls

    def _items(self, items: list[Any]) -> tuple[str, list[tuple[str, Any]]]:
        text = "".join(item["content"][0]["text"] for item in items if item["type"] == "message")
        calls = [item for item in items if item["type"] != "message"]
        return text, [
            (call["name"], json.loads(call["arguments"]) if "arguments" in call else call["input"])
            for call in calls
        ]

    def used(self, got: Got) -> tuple[int, int, int]:
        usage = got.json["usage"]
        cached = usage["input_tokens_details"]["cached_tokens"]
        return usage["input_tokens"], usage["output_tokens"], cached

    shell = ("exec_command", {"cmd": "echo hello > hello.txt"})
    write: Any = (
        "apply_patch",
        '*** Begin Patch\n*** Add File: /tmp/work/result.json\n+{"summary": "done"}\n*** End Patch\n',
    )
    error = ("error", "code", "rate_limit_exceeded")


class CodeMode(Responses):
    """Codex with a model that writes programs, announced within the conversation."""

    tools = ({"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "exec"}]},)

    def body(self, *talk: Any, stream: bool = False, tools: bool = True) -> dict[str, Any]:
        body = super().body(*talk, stream=stream, tools=False)
        if tools:
            body["input"].insert(0, {"type": "additional_tools", "tools": list(self.tools)})
        return body

    shell: Any = (
        "exec",
        'text(JSON.stringify(await tools.exec_command({cmd: "echo hello > hello.txt"})));',
    )
    write: Any = (
        "exec",
        "text(JSON.stringify(await tools.exec_command({cmd: "
        + json.dumps('printf %s \'{"summary": "done"}\' > /tmp/work/result.json')
        + "})));",
    )


class Gemini:
    path = "/v1beta/models/m-1:generateContent"

    def body(self, *talk: Any, stream: bool = False, tools: bool = True) -> dict[str, Any]:
        contents: list[Any] = []
        for said in talk:
            if isinstance(said, str):
                contents.append({"role": "user", "parts": [{"text": said}]})
                continue
            text, tool = said
            call = [{"functionCall": {"name": tool, "args": {}}}] if tool else []
            contents.append({"role": "model", "parts": [{"text": text}, *call]})
            if tool:
                returned = {"functionResponse": {"name": tool, "response": {"output": "returned"}}}
                contents.append({"role": "user", "parts": [returned]})
        declared = [
            {"name": "run_shell_command", "parameters": {"properties": {"command": {}, "description": {}}}},
            {"name": "write_file", "parametersJsonSchema": {"properties": {"file_path": {}}}},
        ]
        return {"contents": contents} | ({"tools": [{"functionDeclarations": declared}]} if tools else {})

    def said(self, got: Got) -> tuple[str, list[tuple[str, Any]]]:
        return self._parts(got.json["candidates"][0]["content"]["parts"])

    def streamed(self, got: Got) -> tuple[str, list[tuple[str, Any]]]:
        candidates = [event["candidates"][0] for event in got.events]
        assert [one.get("finishReason") for one in candidates][-2:] == [None, "STOP"]
        return self._parts([part for one in candidates for part in one["content"]["parts"]])

    def _parts(self, parts: list[Any]) -> tuple[str, list[tuple[str, Any]]]:
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        text = "".join(part.get("text", "") for part in parts)
        return text, [(call["name"], call["args"]) for call in calls]

    def used(self, got: Got) -> tuple[int, int, int]:
        usage = got.json["usageMetadata"]
        names = ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount")
        return tuple(usage[name] for name in names)  # type: ignore[return-value]

    shell = ("run_shell_command", {"command": "echo hello > hello.txt", "description": "Runs a command"})
    write = ("write_file", {"file_path": "/tmp/work/result.json", "content": '{"summary": "done"}'})
    error = ("error", "status", "RESOURCE_EXHAUSTED")


Client = Anthropic | Chat | Responses | CodeMode | Gemini
CLIENTS = [Anthropic(), Chat(), Responses(), CodeMode(), Gemini()]
