"""The listening socket and its connections: reads requests and answers them as scripted."""

import gzip
import json
import re
import select
import socket
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from agentforge.testing.model_server.anthropic_messages import ANTHROPIC_MESSAGES
from agentforge.testing.model_server.gemini import GEMINI
from agentforge.testing.model_server.next_turn import NoTool, bind, is_side, next_turn, step, values
from agentforge.testing.model_server.openai_chat import OPENAI_CHAT
from agentforge.testing.model_server.openai_responses import OPENAI_RESPONSES
from agentforge.testing.model_server.requests import Requests
from agentforge.testing.model_server.script import Fault, Script, Turn
from agentforge.testing.model_server.wire import (
    JSON,
    ModelAnswer,
    ModelConversation,
    RequestedCall,
    WireFormat,
)

HOST = "127.0.0.1"


class Listener(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 64

    def __init__(
        self,
        port: int,
        handler: type[BaseHTTPRequestHandler],
        scripts: Mapping[str, Script],
        *,
        keeps_bodies: bool,
    ) -> None:
        self.scripts = dict(scripts)
        self.keeps_bodies = keeps_bodies
        self.seen = Requests()
        self.closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__((HOST, port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A disconnected client isn't an error.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        self.closing.set()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


FORMATS = (ANTHROPIC_MESSAGES, OPENAI_RESPONSES, OPENAI_CHAT, GEMINI)
MODEL_IN_PATH = re.compile(r"/models/([^/:]+)")


class ModelRequest(Struct, frozen=True):
    format: WireFormat
    body: JSON
    talk: ModelConversation
    model: str
    streams: bool


class Unreadable(ValueError):
    """The request doesn't have the wire format of its path."""


def format_of(path: str) -> WireFormat | None:
    return next((format for format in FORMATS if re.search(format.path, path)), None)


def understand(format: WireFormat, path: str, body: JSON) -> ModelRequest:
    try:
        talk = format.read(body)
    except (KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"not a request in the format {format.name}: {error!r}") from error
    in_path = MODEL_IN_PATH.search(path)
    model = body.get("model") or (in_path[1] if in_path else "")
    return ModelRequest(format, body, talk, model, bool(body.get("stream")) or ":stream" in path)


def events(asked: ModelRequest, answer: ModelAnswer) -> list[bytes]:
    """The parts of the response: at least two, so that it can be cut in the middle."""
    if asked.streams:
        found = list(asked.format.stream(answer, asked.body))
    else:
        found = [asked.format.encode_whole(answer)]
    if len(found) == 1:
        half = len(found[0]) // 2
        return [found[0][:half], found[0][half:]]
    return found


PLACE = re.compile(r"^/(?P<script>[^/]+)/(?P<run>[^/]+)(?P<path>/.*)?$")
LAST_CHUNK = b"0\r\n\r\n"
MODELS = {
    "object": "list",
    "data": [{"id": "scripted", "object": "model", "type": "model", "created": 1, "owned_by": "test"}],
}


class Gone(ConnectionError):
    """The client no longer waits for the response."""


class RequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Listener
    number: int

    def log_message(self, format: str, *args: object) -> None:
        """Requests are recorded, not printed."""

    def do_HEAD(self) -> None:
        self._handle(b"")

    def do_GET(self) -> None:
        self._handle(b"")

    def do_POST(self) -> None:
        self._handle(self._body())

    def do_CONNECT(self) -> None:
        self._handle(b"")

    # -- requests

    def _handle(self, raw: bytes) -> None:
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.number = self.server.seen.add(self.command, path, headers)
        try:
            self._route(path, raw)
        except Gone as gone:
            self._note(ended=str(gone))
            self.close_connection = True
        except OSError:
            self._note(ended="client gone")
            self.close_connection = True
        except Exception as error:
            self._note(ended=f"internal error: {error!r}")
            raise

    def _route(self, path: str, raw: bytes) -> None:
        if self.command == "CONNECT":
            self.close_connection = True
            return self._reply(403, {"error": {"message": "this proxy refuses all connections"}})
        place = PLACE.match(path)
        script = self.server.scripts.get(unquote(place["script"])) if place else None
        if place is None or script is None:
            # Clients check whether the host is reachable.
            return self._reply(200 if path == "/" else 404, {"scripts": sorted(self.server.scripts)})
        path = place["path"] or "/"
        self._note(script=unquote(place["script"]), run=unquote(place["run"]), path=path)
        if self.command != "POST":
            known = path == "/" or path.endswith("/models")
            return self._reply(200 if known else 404, MODELS)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            return self._refuse(415, "the body is not JSON")
        return self._ask(path, body, script, (place["script"], place["run"]))

    def _ask(self, path: str, body: JSON, script: Script, run: tuple[str, str]) -> None:
        if path.endswith(("/count_tokens", ":countTokens")):
            tokens = script.usage.input
            return self._reply(200, {"input_tokens": tokens, "totalTokens": tokens})
        format = format_of(path)
        if format is None:
            return self._reply(404, {"error": {"message": f"unknown path {path}"}})
        try:
            asked = understand(format, path, body)
            return self._converse(asked, script, run)
        except (Unreadable, NoTool) as error:
            return self._refuse(400, str(error))

    def _converse(self, asked: ModelRequest, script: Script, run: tuple[str, str]) -> None:
        self._note_asked(asked, script)
        if is_side(script, asked.talk):
            calm = Script(usage=script.usage)
            return self._send(events(asked, self._answer(Turn(script.aside), asked, calm)), asked, calm)
        nth = self.server.seen.count(*run)
        for fault in script.faults:
            if 0 < nth - fault.after <= fault.times:
                return self._fail(asked.format, fault)
        self._pause(None if script.hang == "before" else script.delay)
        answer = self._answer(next_turn(script, asked.talk), asked, script)
        return self._send(events(asked, answer), asked, script, cut=nth <= script.cuts)

    def _note_asked(self, asked: ModelRequest, script: Script) -> None:
        self._note(
            format=asked.format.name,
            model=asked.model,
            streams=asked.streams,
            tools=tuple(asked.talk.tools),
            prompts=asked.talk.prompts,
            replies=asked.talk.replies,
            results=asked.talk.results,
            is_side=is_side(script, asked.talk),
            step=step(script, asked.talk),
            body=asked.body if self.server.keeps_bodies else None,
        )

    def _answer(self, turn: Turn, asked: ModelRequest, script: Script) -> ModelAnswer:
        known = values(script, asked.talk)
        bound = [bind(action, asked.talk.tools, known) for action in turn.actions]
        calls = tuple(RequestedCall(uuid.uuid4().hex[:16], name, arguments) for name, arguments in bound)
        self._note(calls=tuple(call.name for call in calls))
        return ModelAnswer(uuid.uuid4().hex[:16], asked.model, turn.text, calls, script.usage)

    # -- responses

    def _fail(self, format: WireFormat, fault: Fault) -> None:
        headers = dict(fault.headers)
        if fault.retry_after is not None:
            headers["retry-after"] = f"{fault.retry_after:g}"
        self._reply(fault.status, format.refusal(fault), headers)

    def _refuse(self, status: int, message: str) -> None:
        """Record an invalid request for the test, and respond with an error."""
        error = {"type": "invalid_request_error", "message": message}
        self._reply(status, {"type": "error", "error": error}, ended=message)

    def _reply(
        self,
        status: int,
        content: JSON,
        headers: dict[str, str] | None = None,
        *,
        ended: str = "answered",
    ) -> None:
        body = json.dumps(content).encode()
        self._note(status=status, ended=ended)
        self.send_response(status)
        all_headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **(headers or {}),
        }
        for name, value in all_headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send(self, chunks: list[bytes], asked: ModelRequest, script: Script, *, cut: bool = False) -> None:
        """Send in chunks, so that a client can distinguish a complete response from a closed connection."""
        self._note(status=200)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if asked.streams else "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, chunk in enumerate(chunks):
            if number == len(chunks) // 2:
                if cut:
                    self._note(ended="cut")
                    self.wfile.write(LAST_CHUNK if script.cuts_neatly else b"")
                    raise Gone("cut")
                self._pause(None if script.hang == "within" else 0.0)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self._pause(script.drip)
        # Recorded before the last chunk, so that a client that has read the response finds it.
        self._note(ended="answered")
        self.wfile.write(LAST_CHUNK)

    def _pause(self, seconds: float | None) -> None:
        """Wait, without a time limit if None. Raises Gone if the client disconnects or the server closes."""
        until = None if seconds is None else time.monotonic() + seconds
        while until is None or time.monotonic() < until:
            left = 0.1 if until is None else min(0.1, max(0.0, until - time.monotonic()))
            if self.server.closing.wait(left):
                raise Gone("closed")
            if select.select([self.connection], [], [], 0)[0] and not self._has_more():
                raise Gone("client gone")

    def _has_more(self) -> bool:
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _note(self, **changes: object) -> None:
        self.server.seen.note(self.number, **changes)

    def _body(self) -> bytes:
        raw = b""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw
