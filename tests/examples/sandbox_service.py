"""A remote sandbox service on loopback, as the example's provider talks to one. A sandbox is a folder and the
processes that were started in it; what it is asked and what fails is up to the test."""

import base64
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KEY = "test-key-0123456789"


class Sandbox:
    def __init__(self, root: Path, about: dict[str, Any]) -> None:
        self.root = root
        self.about = about
        self.uploaded: dict[str, tuple[bytes, int]] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.env: dict[str, str] = {}
        root.mkdir(parents=True)

    def put(self, files: list[dict[str, Any]]) -> None:
        for file in files:
            path = self.root / file["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(file["data"]))
            path.chmod(file["mode"])
            self.uploaded[file["path"]] = (path.read_bytes(), file["mode"])

    def start(self, argv: list[str], env: dict[str, str], stdin: str) -> "subprocess.Popen[bytes]":
        (self.root.parent / f"{self.root.name}.stdin").write_text(stdin)
        self.env = env
        with (self.root.parent / f"{self.root.name}.stdin").open("rb") as given:
            self.process = subprocess.Popen(
                argv,
                cwd=self.root,
                env={"PATH": os.environ["PATH"], **env},
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.process

    def changes(self) -> dict[str, Any]:
        now = {
            str(path.relative_to(self.root)): (path.read_bytes(), path.stat().st_mode & 0o777)
            for path in self.root.rglob("*")
            if path.is_file()
        }
        changed = [
            {"path": path, "mode": mode, "data": base64.b64encode(data).decode()}
            for path, (data, mode) in sorted(now.items())
            if self.uploaded.get(path) != (data, mode)
        ]
        return {"files": changed, "deleted": sorted(set(self.uploaded) - set(now))}

    def end(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.root, ignore_errors=True)


class SandboxService:
    """The running service, and what a test wants to know of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.alive: dict[str, Sandbox] = {}
        self.made: list[dict[str, Any]] = []
        self.ended: list[str] = []
        self.calls: list[str] = []
        self.environments: list[dict[str, str]] = []
        self.failing: dict[str, int] = {}
        """What is refused, with which status: `create`, `upload`, `run`, `changes`, `end`."""
        self.extra_changes: list[dict[str, Any]] = []
        self.breaks_off = False
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        return {"REMOTE_SANDBOX_URL": self.url, "REMOTE_SANDBOX_API_KEY": KEY}

    def file(self, path: str, text: str = "from the sandbox") -> dict[str, Any]:
        return {"path": path, "mode": 0o644, "data": base64.b64encode(text.encode()).decode()}


@contextmanager
def serving(folder: Path) -> Iterator[SandboxService]:
    service = SandboxService(folder)

    class Handler(_Handler):
        pass

    Handler.service = service
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield service
    finally:
        for sandbox in list(service.alive.values()):
            sandbox.end()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    service: SandboxService

    def do_POST(self) -> None:
        about = self._body()
        if self.path == "/sandboxes":
            if self._refused("create"):
                return
            sandbox = Sandbox(self.service.folder / about["name"], about)
            self.service.made.append(about)
            self.service.alive[about["name"]] = sandbox
            self._answer(201, {"root": str(sandbox.root)})
        elif (sandbox := self._sandbox()) and not self._refused("run"):
            self._run(sandbox, about)

    def do_PUT(self) -> None:
        about = self._body()
        if (sandbox := self._sandbox()) and not self._refused("upload"):
            sandbox.put(about["files"])
            self._answer(204)

    def do_GET(self) -> None:
        if (sandbox := self._sandbox()) and not self._refused("changes"):
            changes = sandbox.changes()
            changes["files"] += self.service.extra_changes
            self._answer(200, changes)

    def do_DELETE(self) -> None:
        if self._refused("end"):
            return
        sandbox = self.service.alive.pop(self.path.split("/")[2], None)
        if sandbox is None:
            self._answer(404, {"error": "no such sandbox"})
            return
        sandbox.end()
        self.service.ended.append(sandbox.root.name)
        self._answer(204)

    def log_message(self, *_: object) -> None:
        pass

    def _run(self, sandbox: Sandbox, about: dict[str, Any]) -> None:
        self.service.environments.append(about["env"])
        process = sandbox.start(about["argv"], about["env"], about["stdin"])
        assert process.stdout is not None
        self.send_response(200)
        self.end_headers()
        with process.stdout, suppress(ConnectionError):
            for line in process.stdout:
                self._line({"output": line.decode()})
                if self.service.breaks_off:
                    return
            self._line({"exit": process.wait()})

    def _line(self, value: object) -> None:
        self.wfile.write(json.dumps(value).encode() + b"\n")
        self.wfile.flush()

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def _sandbox(self) -> Sandbox | None:
        found = self.service.alive.get(self.path.split("/")[2])
        if found is None:
            self._answer(404, {"error": "no such sandbox"})
        return found

    def _refused(self, operation: str) -> bool:
        self.service.calls.append(operation)
        status = self.service.failing.get(operation)
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            status = 401
        if status is not None:
            self._answer(status, {"error": f"{operation} refused"})
        return status is not None

    def _answer(self, status: int, value: object = None) -> None:
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
