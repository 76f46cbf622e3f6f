"""A port for a server that a page or an example starts: two clones may run their tests at the same time."""

import socket
from contextlib import closing


def free_port() -> int:
    """On loopback; the system doesn't give the same one to the next that asks."""
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port: int = probe.getsockname()[1]
        return port
