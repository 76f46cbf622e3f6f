"""An HTTP transport that reaches only this machine: it connects to the address that it has judged, so that a
name which leads elsewhere a moment later changes nothing. It knows no proxies, and judges each redirect."""

import asyncio

import httpx2

from agentforge.system.loopback import NotLocal, Resolve, local_addresses, resolved


class LocalTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, resolve: Resolve = resolved) -> None:
        super().__init__()
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        try:
            addresses = await asyncio.to_thread(local_addresses, host, self._resolve)
        except NotLocal as error:
            raise httpx2.UnsupportedProtocol(f"network: local: {error}", request=request) from error
        failed: httpx2.ConnectError | None = None
        for address in addresses:
            there = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await super().handle_async_request(there)
            except httpx2.ConnectError as error:
                # A server may listen on one of the addresses of `localhost` only.
                failed = error
        raise failed or httpx2.ConnectError(f"{host} has no address here", request=request)
