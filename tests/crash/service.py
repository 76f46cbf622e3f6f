"""The service that the webhooks of crash runs call. It notes what arrives, by key, with what the log of the
run says at that moment, and answers by the place of the call alone."""

import json
import threading
import time
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .story import Story

SECONDS = 0.03
"""How long it takes to answer, so that a kill may fall into that time."""
FLAKY = "flaky"
"""The id of a stage whose first call fails."""


class Service(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._runs: dict[str, Story] = {}
        self._lock = threading.Lock()

    def address_for(self, story: Story) -> str:
        self._runs[f"/{story.run}"] = story
        return f"http://127.0.0.1:{self.server_port}/{story.run}"

    def take(self, path: str, key: str, payload: dict[str, Any]) -> tuple[int, dict[str, str]]:
        story = self._runs[path]
        known = _known(story.log, key, payload["attempt"])
        refused = payload["stage"] == FLAKY and payload["attempt"] == 1
        with self._lock, story.deliveries.open("a", encoding="utf-8") as noted:
            noted.write(json.dumps({**payload, **known, "key": key, "refused": refused}) + "\n")
        time.sleep(SECONDS)
        if refused:
            return 503, {}
        return 200, {"context": f"reviewed {_place(payload)}"}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients are killed."""


def _place(payload: dict[str, Any]) -> str:
    return "/".join(str(payload[name]) for name in ("event", "stage", "provider", "iteration"))


def _known(log: Path, key: str, attempt: int) -> dict[str, bool]:
    """Whether the log says that this try is intended, and whether the call was answered before."""
    whole, _, _ = log.read_bytes().rpartition(b"\n")
    events = [json.loads(line) for line in whole.split(b"\n")]
    tries = [
        e["data"]["attempt"] for e in events if e["type"] == "effect_intended" and e["data"]["key"] == key
    ]
    answers = [e for e in events if e["type"] == "hook_complete" and e["data"]["delivery"] == key]
    return {"intended": attempt in tries, "answered": bool(answers)}


class _Handler(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:
            return  # The engine died while it was sending.
        status, answer = self.server.take(self.path, self.headers["Idempotency-Key"], json.loads(body))
        said = json.dumps(answer).encode()
        head = (
            f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {len(said)}\r\n\r\n"
        )
        # In one piece, so that it is one call to receive it.
        self.wfile.write(head.encode() + said)

    def log_message(self, *_: object) -> None:
        pass


@cache
def service() -> Service:
    """One for all runs of this process."""
    made = Service()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    return made
