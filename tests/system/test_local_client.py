"""The transport of `network: local`: it connects to the address that it has judged, and to no other."""

import asyncio
from collections.abc import Callable, Sequence

import httpx2
import pytest

from agentforge.system.local_client import LocalTransport

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


async def served(
    answer: bytes, resolve: Callable[[str], Sequence[str]], path: str, **how: bool
) -> tuple[int, str]:
    """The status of a request to a server on 127.0.0.1 that is called `models.test`, and what it was sent."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with httpx2.AsyncClient(transport=LocalTransport(resolve), **how) as client:  # type: ignore[arg-type]
            found = await client.get(f"http://models.test:{port}{path}")
            return found.status_code, asked[0]


def test_it_connects_to_one_of_the_judged_addresses() -> None:
    # Nothing listens on the first one.
    status, asked = asyncio.run(served(OK, lambda _: ["127.0.0.9", "127.0.0.1"], "/v1"))
    assert status == 200
    assert asked.startswith("GET /v1 HTTP/1.1\r\n")
    assert "host: models.test:" in asked.lower()


def test_a_name_that_leads_elsewhere_a_moment_later_is_refused() -> None:
    answers = iter([["127.0.0.1"], ["203.0.113.7"]])

    async def twice() -> None:
        def resolve(_: str) -> Sequence[str]:
            return found

        found = next(answers)
        await served(OK, resolve, "/")
        found = next(answers)
        await served(OK, resolve, "/")

    with pytest.raises(httpx2.UnsupportedProtocol, match=r"is 203\.0\.113\.7, which is not on this"):
        asyncio.run(twice())


@pytest.mark.parametrize("place", ["http://203.0.113.7/v1", "http://[2001:db8::1]/", "//203.0.113.7/x"])
def test_a_redirect_elsewhere_is_not_followed(place: str) -> None:
    answer = f"HTTP/1.1 307 Elsewhere\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()

    def resolve(host: str) -> Sequence[str]:
        return ["127.0.0.1"] if host == "models.test" else [host]

    status, _ = asyncio.run(served(answer, resolve, "/"))
    assert status == 307
    with pytest.raises(httpx2.UnsupportedProtocol, match="is not on this machine"):
        asyncio.run(served(answer, resolve, "/", follow_redirects=True))


def test_it_takes_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://203.0.113.7:1")
    status, _ = asyncio.run(served(OK, lambda _: ["127.0.0.1"], "/"))
    assert status == 200


def test_without_a_server_there_is_no_connection() -> None:
    async def call() -> None:
        async with httpx2.AsyncClient(transport=LocalTransport(lambda _: ["127.0.0.1"])) as client:
            await client.get("http://models.test:1/")

    with pytest.raises(httpx2.ConnectError):
        asyncio.run(call())
