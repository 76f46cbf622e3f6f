"""The server itself: a thread that listens on loopback, and one for each connection."""

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from urllib.parse import quote

from agentforge.testing.model_server.handler import RequestHandler
from agentforge.testing.model_server.listener import HOST, Listener
from agentforge.testing.model_server.script import Script
from agentforge.testing.model_server.scripts import SCRIPTS
from agentforge.testing.model_server.seen import SeenRequests


class ModelServer:
    """Listens from the time it is made until it is closed. Port 0 is any that is free."""

    def __init__(
        self, scripts: Mapping[str, Script] | None = None, *, port: int = 0, keep_bodies: bool = False
    ) -> None:
        """`scripts` by name, besides the built-in ones."""
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
        """Hang up on everybody, and wait until all threads are gone."""
        self._listener.shutdown()
        self._listener.hang_up()
        self._thread.join()
        self._listener.server_close()

    @property
    def address(self) -> str:
        """Without any script: for HTTPS_PROXY, as a trap."""
        return f"http://{HOST}:{self._listener.server_address[1]}"

    def url(self, script: str | Script, run: str = "main") -> str:
        """Where that script is played, for one run: Anthropic's and Gemini's base, OpenAI's with `/v1`."""
        name = script
        if isinstance(script, Script):
            name = f"of-{run}"
            self._listener.scripts[name] = script
        elif script not in self._listener.scripts:
            raise LookupError(f"no script {script!r}; there are {', '.join(sorted(self._listener.scripts))}")
        return f"{self.address}/{quote(str(name), safe='')}/{quote(run, safe='')}"

    def requests(self, run: str = "main", *, asides: bool = False) -> tuple[SeenRequests, ...]:
        """What a run asked of the model, in order."""
        every = (seen for seen in self.every_request() if seen.run == run and seen.format)
        return tuple(seen for seen in every if asides or not seen.is_side)

    def every_request(self) -> tuple[SeenRequests, ...]:
        return self._listener.seen.all()

    def strays(self) -> tuple[str, ...]:
        """The hosts outside that clients wanted to reach, if this server was their proxy."""
        return tuple(seen.path for seen in self.every_request() if seen.method == "CONNECT")

    def wait_for(
        self, run: str, wanted: Callable[[SeenRequests], bool], seconds: float = 10.0
    ) -> SeenRequests:
        """The first request of a run that is as wanted, or TimeoutError."""
        return self._listener.seen.wait_for(lambda seen: seen.run == run and wanted(seen), seconds)
