"""The listening socket of the model server, and its requests."""

import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentforge.testing.model_server.script import Script
from agentforge.testing.model_server.seen import Requests

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
