"""The HTTP client of the sandbox service. Standard library only: it runs in the agent's process.

POST   /sandboxes               {"name", "template", "ttl"}       -> {"root"}: the workspace's folder there
PUT    /sandboxes/NAME/files    {"files": [{"path", "mode", "data"}]}
POST   /sandboxes/NAME/run      {"argv", "env", "stdin"}          -> lines: {"output": TEXT}…, {"exit": CODE}
GET    /sandboxes/NAME/changes                                    -> {"files", "deleted"} since the upload
DELETE /sandboxes/NAME
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

URL = "REMOTE_SANDBOX_URL"
KEY = "REMOTE_SANDBOX_API_KEY"
REPORT = "remote-sandbox: "
"""The prefix of the line that reports a failure and its kind."""
TIMEOUT = 60.0
"""Seconds for one response; `run` has no timeout, because an agent may print nothing for longer."""

# The engine's kinds of failure: depending on them it waits, asks for a login or uses the next provider.
_KINDS = {401: "provider_auth", 403: "provider_auth", 402: "provider_quota", 429: "provider_rate_limited"}


class ServiceFailed(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Service:
    def __init__(self, url: str, key: str) -> None:
        self._address = urlsplit(url)
        self._key = key

    def create(self, name: str, template: str, ttl: int) -> str:
        answer = self._request("POST", "/sandboxes", {"name": name, "template": template, "ttl": ttl})
        return str(answer["root"])

    def upload(self, name: str, files: list[dict[str, Any]]) -> None:
        self._request("PUT", f"/sandboxes/{name}/files", {"files": files})

    def run(self, name: str, argv: list[str], env: dict[str, str], stdin: str) -> Iterator[dict[str, Any]]:
        """Stream the agent's output; the last message has its exit status."""
        body = {"argv": argv, "env": env, "stdin": stdin}
        with self._call("POST", f"/sandboxes/{name}/run", body, timeout=None) as response:
            for line in response:
                yield json.loads(line)

    def changes(self, name: str) -> tuple[list[dict[str, Any]], list[str]]:
        answer = self._request("GET", f"/sandboxes/{name}/changes")
        return answer["files"], answer["deleted"]

    def delete(self, name: str) -> None:
        """A missing sandbox is not an error."""
        self._request("DELETE", f"/sandboxes/{name}", accepted=(404,))

    def _request(self, method: str, path: str, body: object = None, accepted: tuple[int, ...] = ()) -> Any:
        with self._call(method, path, body, TIMEOUT, accepted) as response:
            content = response.read()
        return json.loads(content) if content else {}

    @contextmanager
    def _call(
        self, method: str, path: str, body: object, timeout: float | None, accepted: tuple[int, ...] = ()
    ) -> Iterator[HTTPResponse]:
        kind = HTTPSConnection if self._address.scheme == "https" else HTTPConnection
        connection = kind(self._address.hostname or "", self._address.port, timeout=timeout)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, self._address.path.rstrip("/") + path, data, headers)
            response = connection.getresponse()
            if response.status >= 400 and response.status not in accepted:
                message = response.read(500).decode(errors="replace").strip()
                failure = _KINDS.get(response.status, "provider_overloaded")
                raise ServiceFailed(failure, f"the sandbox service returned {response.status}: {message}")
            yield response
        except (OSError, HTTPException, ValueError) as error:
            raise ServiceFailed("provider_unreachable", f"the sandbox service failed: {error}") from error
        finally:
            connection.close()
