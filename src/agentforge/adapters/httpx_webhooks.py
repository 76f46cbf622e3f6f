"""Webhooks over HTTP: a signed POST, an answer of limited size, and redirects within one origin.

httpx is imported when a webhook is sent: few runs need it.
"""

import hmac
import os
import ssl
from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING

from agentforge.model.failure import short_message
from agentforge.ports.webhook import (
    MAX_ANSWER,
    WebhookAnswer,
    WebhookMessage,
    WebhookRefused,
    WebhookTimedOut,
)
from agentforge.system.work_limit import WorkLimit
from agentforge.version import __version__

if TYPE_CHECKING:
    import httpx2

MAX_REDIRECTS = 3
QUOTED_CHARS = 200
"""What a message quotes of an answer that reports an error."""
REPEATED = frozenset({307, 308})
"""Redirects that repeat the POST at another address; the others would lose its body."""
TEMPORARY = frozenset({408, 429})


class HttpxWebhooks:
    async def post(
        self, message: WebhookMessage, seconds: float
    ) -> WebhookAnswer | WebhookRefused | WebhookTimedOut:
        import httpx2

        try:
            async with WorkLimit(seconds):
                return await _post(message)
        except TimeoutError:
            return WebhookTimedOut()
        except (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
            return _impossible(error)
        except (httpx2.HTTPError, OSError) as error:
            return _unreachable(message, error)
        except Exception as error:  # The service chooses its answer and where it redirects to.
            return _impossible(error)


async def _post(message: WebhookMessage) -> WebhookAnswer | WebhookRefused:
    import httpx2

    url = httpx2.URL(message.url)
    # A proxy can't reach what listens on this machine. Loading certificates takes long.
    is_remote, is_tls = not _is_loopback(url.host), url.scheme == "https"
    trusted = httpx2.create_ssl_context() if is_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    transport = None
    if message.local:
        from agentforge.system.local_client import LocalTransport

        transport = LocalTransport()
    async with httpx2.AsyncClient(
        trust_env=is_remote, verify=trusted, timeout=None, transport=transport
    ) as client:
        # Redirects are followed here and not by the client: it would send the body to any origin.
        for _ in range(MAX_REDIRECTS + 1):
            request = client.build_request("POST", url, content=message.body, headers=headers(message))
            response = await client.send(request, stream=True)
            try:
                if response.has_redirect_location:
                    target = _target(response)
                    if isinstance(target, WebhookRefused):
                        return target
                    url = target
                    continue
                return await _answer(response)
            finally:
                await response.aclose()
    return WebhookRefused(f"{_origin(url)} redirected more than {MAX_REDIRECTS} times", retry=False)


def headers(message: WebhookMessage) -> dict[str, str]:
    """`AgentForge-Signature` is an HMAC over the time, the key and the body, so that none of them can be
    replaced."""
    sent = {
        "Content-Type": "application/json",
        "User-Agent": f"agentforge/{__version__}",
        # A compressed answer could be larger than it looks.
        "Accept-Encoding": "identity",
        "Idempotency-Key": message.key,
        "AgentForge-Timestamp": str(message.sent_at),
    }
    if message.secret:
        signed = f"{message.sent_at}.{message.key}.".encode() + message.body
        digest = hmac.new(message.secret.encode("utf-8", "surrogateescape"), signed, "sha256").hexdigest()
        sent["AgentForge-Signature"] = f"v1={digest}"
    return sent


def _target(response: "httpx2.Response") -> "httpx2.URL | WebhookRefused":
    """Where a redirect leads. Another origin was not named in the definition, so it gets nothing."""
    url, status = response.request.url, response.status_code
    target = url.join(response.headers["Location"])
    if _origin(target) != _origin(url) or target.userinfo:
        message = f"{_origin(url)} redirected to another origin, {_origin(target)}, which is refused"
        return WebhookRefused(short_message(message), retry=False, status=status)
    if status not in REPEATED:
        message = f"{_origin(url)} answered {status}: only redirects 307 and 308 are followed for a POST"
        return WebhookRefused(message, retry=False, status=status)
    return target


async def _answer(response: "httpx2.Response") -> WebhookAnswer | WebhookRefused:
    status, origin = response.status_code, _origin(response.request.url)
    body = await _body(response)
    if not response.is_success:
        said = (body or b"")[: QUOTED_CHARS * 4].decode("utf-8", "replace")
        said = " ".join(said.split())[:QUOTED_CHARS]
        message = f"{origin} answered {status}: {said}" if said else f"{origin} answered {status}"
        return WebhookRefused(message, retry=status in TEMPORARY or status >= 500, status=status)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        return WebhookRefused(f"{origin} sent a compressed answer", retry=False, status=status)
    if body is None:
        message = f"the answer of {origin} is larger than {MAX_ANSWER // 1024} KB"
        return WebhookRefused(message, retry=False, status=status)
    return WebhookAnswer(status, body)


async def _body(response: "httpx2.Response") -> bytes | None:
    """None if it is too large."""
    body = b""
    async for part in response.aiter_raw():
        body += part
        if len(body) > MAX_ANSWER:
            return None
    return body


def _impossible(error: Exception) -> WebhookRefused:
    return WebhookRefused(short_message(f"can't send the webhook: {error}"), retry=False)


def _unreachable(message: WebhookMessage, error: Exception) -> WebhookRefused:
    import httpx2

    origin = _origin(httpx2.URL(message.url))
    told = str(error) or type(error).__name__
    for cause in causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            text = f"the certificate of {origin} is not valid: {cause.verify_message}"
            return WebhookRefused(short_message(text), retry=False)
        if isinstance(cause, ConnectionError) and cause.errno:
            # The client says only that it failed.
            told = os.strerror(cause.errno)
    return WebhookRefused(short_message(f"can't reach {origin}: {told}"), retry=True)


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, the origin last."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _origin(url: "httpx2.URL") -> str:
    """Without path and query, which may contain a token."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
