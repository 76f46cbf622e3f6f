"""The server: a thread that listens on loopback, and one for each connection."""

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from urllib.parse import quote

from agentforge.testing.model_server.handler import HOST, Listener, RequestHandler
from agentforge.testing.model_server.requests import SeenRequest
from agentforge.testing.model_server.script import SCRIPTS, Script


class ModelServer:
    """Listens until it is closed. Port 0 chooses a free port."""

    def __init__(
        self, scripts: Mapping[str, Script] | None = None, *, port: int = 0, keep_bodies: bool = False
    ) -> None:
        """`scripts`: by name, in addition to the built-in ones."""
        self._listener = Listener(
            port, RequestHandler, {**SCRIPTS, **(scripts or {})}, keeps_bodies=keep_bodies
        )
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> "ModelServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, and wait until all threads have ended."""
        self._listener.shutdown()
        self._listener.hang_up()
        self._thread.join()
        self._listener.server_close()

    @property
    def address(self) -> str:
        """The address without a script: for HTTPS_PROXY, to detect outgoing connections."""
        return f"http://{HOST}:{self._listener.server_address[1]}"

    def url(self, script: str | Script, run: str = "main") -> str:
        """The base URL of a script for one run; OpenAI clients append `/v1`."""
        name = script
        if isinstance(script, Script):
            name = f"of-{run}"
            self._listener.scripts[name] = script
        elif script not in self._listener.scripts:
            known = ", ".join(sorted(self._listener.scripts))
            raise LookupError(f"unknown script {script!r}; known scripts: {known}")
        return f"{self.address}/{quote(str(name), safe='')}/{quote(run, safe='')}"

    def requests(self, run: str = "main", *, asides: bool = False) -> tuple[SeenRequest, ...]:
        """The requests of a run to the model, in order."""
        every = (seen for seen in self.every_request() if seen.run == run and seen.format)
        return tuple(seen for seen in every if asides or not seen.is_side)

    def every_request(self) -> tuple[SeenRequest, ...]:
        return self._listener.seen.all()

    def strays(self) -> tuple[str, ...]:
        """The external hosts that clients tried to reach with this server as their proxy."""
        return tuple(seen.path for seen in self.every_request() if seen.method == "CONNECT")

    def wait_for(
        self, run: str, matches: Callable[[SeenRequest], bool], seconds: float = 10.0
    ) -> SeenRequest:
        """The first matching request of a run. Raises TimeoutError."""
        return self._listener.seen.wait_for(lambda seen: seen.run == run and matches(seen), seconds)
