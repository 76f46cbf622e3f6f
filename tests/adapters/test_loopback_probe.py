"""Model servers on loopback: detected by their response, with a short timeout."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agentforge.adapters.host.probe import Listening, model_server


@contextmanager
def serving(status: int, body: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/v1/models"
            self.send_response(status if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_a_model_server_lists_its_models() -> None:
    with serving(200, b'{"object": "list", "data": [{"id": "qwen3-coder:30b"}, {"id": "tiny"}]}') as port:
        assert model_server(port) == Listening(("qwen3-coder:30b", "tiny"))


@pytest.mark.parametrize("body", [b'{"data": []}', b'{"object": "list", "data": null}'])
def test_a_model_server_without_models(body: bytes) -> None:
    with serving(200, body) as port:
        assert model_server(port) == Listening(())


@pytest.mark.parametrize(
    ("status", "body"), [(404, b""), (200, b"<html>"), (200, b"[]"), (200, b'{"data": [1]}'), (500, b"{}")]
)
def test_another_server_is_not_a_model_server(status: int, body: bytes) -> None:
    with serving(status, body) as port:
        assert model_server(port) == Listening(None)


def test_nothing_listens_on_the_port() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert model_server(port) is None


def test_one_that_never_answers_is_not_waited_for() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert model_server(silent.getsockname()[1], seconds=0.2) == Listening(None)
