"""Webhooks against real servers on loopback: what arrives, and what becomes of each kind of answer."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.webhook_server import Reply, WebhookServer, make_certificate, serving

from agentforge.adapters.httpx_webhooks import HttpxWebhooks
from agentforge.ports.webhook import (
    MAX_ANSWER,
    WebhookAnswer,
    WebhookMessage,
    WebhookRefused,
    WebhookTimedOut,
)
from agentforge.version import __version__


def message(url: str, secret: str = "") -> WebhookMessage:
    return WebhookMessage(url, b'{"session": "s"}', "key-1", 1_700_000_000, secret)


def post(
    url: str, *, secret: str = "", seconds: float = 60
) -> WebhookAnswer | WebhookRefused | WebhookTimedOut:
    return asyncio.run(HttpxWebhooks().post(message(url, secret), seconds))


def refused(server: WebhookServer) -> WebhookRefused:
    found = post(server.url)
    assert isinstance(found, WebhookRefused)
    return found


def test_the_message_arrives_with_its_key_and_time() -> None:
    with serving(Reply(body='{"context": "more tests"}')) as server:
        assert post(f"{server.url}/review?x=1") == WebhookAnswer(200, b'{"context": "more tests"}')
    (received,) = server.received
    assert (received.path, received.body) == ("/review?x=1", b'{"session": "s"}')
    expected = {
        "content-type": "application/json",
        "user-agent": f"agentforge/{__version__}",
        "idempotency-key": "key-1",
        "agentforge-timestamp": "1700000000",
    }
    assert expected.items() <= received.headers.items()
    assert "agentforge-signature" not in received.headers


def test_the_signature_covers_time_key_and_body() -> None:
    with serving() as server:
        post(server.url, secret="s3cret")
    (received,) = server.received
    assert received.is_signed_with("s3cret")
    assert not received.is_signed_with("other")


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_temporary_error_may_be_retried(status: int) -> None:
    with serving(Reply(status, "try\n  later")) as server:
        assert refused(server) == WebhookRefused(f"{server.url} answered {status}: try later", True, status)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 300])
def test_a_lasting_error_is_not_retried(status: int) -> None:
    with serving(Reply(status)) as server:
        assert refused(server) == WebhookRefused(f"{server.url} answered {status}", False, status)


def test_an_answer_of_the_greatest_size_is_read() -> None:
    with serving(Reply(201, b"x" * MAX_ANSWER)) as server:
        assert post(server.url) == WebhookAnswer(201, b"x" * MAX_ANSWER)


def test_a_huge_answer_is_refused_without_reading_all_of_it() -> None:
    with serving(Reply(body=b"x" * (MAX_ANSWER + 1))) as server:
        found = refused(server)
    assert found == WebhookRefused(f"the answer of {server.url} is larger than 64 KB", False, 200)


def test_a_compressed_answer_is_refused() -> None:
    with serving(Reply(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})) as server:
        assert refused(server) == WebhookRefused(f"{server.url} sent a compressed answer", False, 200)
    assert server.received[0].headers["accept-encoding"] == "identity"


def test_an_answer_that_breaks_off_may_be_retried() -> None:
    with serving(Reply(body=b"half", cut=True)) as server:
        found = refused(server)
    assert found.retry
    assert found.message.startswith(f"can't reach {server.url}: ")


def test_a_hanging_service_times_out() -> None:
    with serving(Reply(hangs=True)) as server:
        assert post(server.url, seconds=0.5) == WebhookTimedOut()
    assert server.keys == ["key-1"]


def test_a_closed_port_may_be_retried() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = post(f"http://127.0.0.1:{port}")
    assert found == WebhookRefused(f"can't reach http://127.0.0.1:{port}: Connection refused", True)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://", "http://127.0.0.1:99999/"])
def test_an_address_that_is_none_is_not_retried(url: str) -> None:
    found = post(url)
    assert isinstance(found, WebhookRefused)
    assert not found.retry


def test_a_redirect_on_the_same_origin_repeats_the_message() -> None:
    moved = Reply(307, headers={"Location": "/there"})
    with serving(moved, Reply(308, headers={"Location": "/final"}), Reply(body="ok")) as server:
        assert post(server.url, secret="s3cret") == WebhookAnswer(200, b"ok")
    assert [request.path for request in server.received] == ["/", "/there", "/final"]
    assert all(request.is_signed_with("s3cret") for request in server.received)
    assert len({request.body for request in server.received}) == 1


def test_a_redirect_to_another_host_is_refused_and_gets_nothing() -> None:
    with serving() as other, serving(Reply(307, headers={"Location": f"{other.url}/take"})) as server:
        found = refused(server)
    assert found == WebhookRefused(
        f"{server.url} redirected to another origin, {other.url}, which is refused", False, 307
    )
    assert not other.received


def test_a_redirect_with_credentials_is_refused() -> None:
    with serving() as server:
        location = server.url.replace("//", "//user:word@")
    with serving(Reply(307, headers={"Location": location})) as server:
        assert not refused(server).retry


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_loses_the_message_is_refused(status: int) -> None:
    with serving(Reply(status, headers={"Location": "/there"})) as server:
        found = refused(server)
    assert not found.retry
    assert "only redirects 307 and 308 are followed for a POST" in found.message
    assert len(server.received) == 1


def test_redirects_come_to_an_end() -> None:
    with serving(Reply(307, headers={"Location": "/"})) as server:
        assert refused(server) == WebhookRefused(f"{server.url} redirected more than 3 times", False)
    assert len(server.received) == 4


def test_an_unknown_certificate_is_refused(tmp_path: Path) -> None:
    with serving(certificate=make_certificate(tmp_path, "127.0.0.1")) as server:
        found = refused(server)
    assert not found.retry
    assert found.message.startswith(f"the certificate of {server.url} is not valid: ")
    assert not server.received


def test_a_certificate_for_another_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path, "192.0.2.1")
    monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    with serving(certificate=certificate) as server:
        assert "is not valid for" in refused(server).message
    assert not server.received


def test_a_trusted_certificate_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    with serving(Reply(body="ok"), certificate=certificate) as server:
        assert post(server.url) == WebhookAnswer(200, b"ok")


def test_no_proxy_is_asked_for_a_service_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Reply(502)) as proxy, serving(Reply(body="ok")) as server:
        for name in ("http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert post(server.url) == WebhookAnswer(200, b"ok")
    assert not proxy.received


def test_the_client_is_only_imported_to_send() -> None:
    code = "import sys; import agentforge.adapters.httpx_webhooks; print('httpx2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
