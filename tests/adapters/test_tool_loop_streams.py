"""Malformed server responses, byte for byte."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.api_tasks import Ran, files

from agentforge.model.failure import FailureKind
from agentforge.model.spending import Amount
from agentforge.tool_loop.task import Endpoint, ModelTask, Retrying


class Closing(BaseHTTPRequestHandler):
    """Answers with the beginning of a stream and closes, as a plain server without chunks does."""

    beginning = b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.beginning)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


FIRST_FACTS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": "I will"}}],
        }
    ],
    "anthropic": [
        {
            "type": "message_start",
            "message": {
                "id": "1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "I will"}},
        {"type": "content_block_stop", "index": 0},
    ],
}

TOO_LONG: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {**FIRST_FACTS["openai"][0], "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    ],
    "anthropic": [
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ],
}


@contextmanager
def answering(format: str, events: list[dict[str, Any]]) -> Iterator[Endpoint]:
    """A server that gives this answer to everything."""
    lines = []
    for event in events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        lines.append(f"{name}data: {json.dumps(event)}\n\n")
    handler = type("Handler", (Closing,), {"beginning": "".join(lines).encode()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield Endpoint(format, "m", f"http://127.0.0.1:{server.server_address[1]}")  # type: ignore[arg-type]
        server.shutdown()
        thread.join()


def test_stream_that_ends_early_without_an_error_is_rejected(wire_format: str, tmp_path: Path) -> None:
    with answering(wire_format, FIRST_FACTS[wire_format]) as where:
        ran = Ran(ModelTask("Do.", where, files(tmp_path), retries=1))
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind is FailureKind.PROVIDER_UNREACHABLE
    assert "was cut off: it has no finish reason" in ran.outcome.failure.message
    assert len(ran.of(Retrying)) == 1
    assert not (tmp_path / "iteration/result.json").exists()


@pytest.mark.parametrize(
    ("tokens", "kind", "says"),
    [
        (None, FailureKind.AGENT_LIMIT, "max_tokens"),
        (10**6, FailureKind.AGENT_LIMIT, "max_tokens"),
        (10_000, FailureKind.CAP_REACHED, "tokens for an answer, which took more"),
    ],
)
def test_answer_cut_at_max_tokens_is_not_a_result(
    wire_format: str, tmp_path: Path, tokens: int | None, kind: FailureKind, says: str
) -> None:
    budget = Amount(tokens=tokens) if tokens else None
    with answering(wire_format, FIRST_FACTS[wire_format] + TOO_LONG[wire_format]) as where:
        outcome = Ran(ModelTask("Do.", where, files(tmp_path), budget=budget)).outcome
    assert outcome.failure is not None
    assert (outcome.failure.kind, says in outcome.failure.message) == (kind, True), outcome.failure
    assert not (tmp_path / "iteration/result.json").exists()
