"""A web service on loopback that answers as told and keeps what it received."""

import hmac
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes | str = b""
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    """Sends the headers and then nothing, until the server is closed."""
    cut: bool = False
    """Ends the connection in the middle of the body."""

    @property
    def content(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else self.body


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]

    @property
    def payload(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded

    def is_signed_with(self, secret: str) -> bool:
        signed = f"{self.headers['agentforge-timestamp']}.{self.key}.".encode() + self.body
        expected = hmac.new(secret.encode(), signed, "sha256").hexdigest()
        return self.headers.get("agentforge-signature") == f"v1={expected}"


class WebhookServer(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, replies: tuple[Reply, ...]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []
        self.arrived = threading.Event()
        self.closing = threading.Event()
        self.scheme = "http"
        self._replies = replies
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    @property
    def keys(self) -> list[str]:
        return [request.key for request in self.received]

    def take(self, request: Received) -> Reply:
        """The reply to a request; the last one is repeated."""
        with self._lock:
            self.received.append(request)
            self.arrived.set()
            return self._replies[min(len(self.received), len(self._replies)) - 1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients leave, and refuse certificates."""


class _Handler(BaseHTTPRequestHandler):
    server: WebhookServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.take(Received(self.path, headers, body))
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        length = len(reply.content) + (1 if reply.cut or reply.hangs else 0)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.flush()
        if reply.hangs:
            self.server.closing.wait(60)
        with suppress(OSError):
            self.wfile.write(reply.content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(*replies: Reply, certificate: Path | None = None) -> Iterator[WebhookServer]:
    with WebhookServer(replies or (Reply(),)) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
            server.scheme = "https"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


def make_certificate(folder: Path, address: str) -> Path:
    """A certificate that signs itself, and its key, in one file."""
    made = folder / f"{address}.pem"
    request = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={address}"
    names = ("-addext", f"subjectAltName=IP:{address}", "-keyout", made, "-out", f"{made}.crt")
    try:
        subprocess.run(["openssl", *request.split(), *names], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("program: no openssl")
    made.write_bytes(made.read_bytes() + Path(f"{made}.crt").read_bytes())
    return made
