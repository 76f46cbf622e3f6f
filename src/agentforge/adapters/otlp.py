"""Sends spans to an OpenTelemetry collector, over HTTP.

Needs the extra `otel`, which is imported when spans are sent. The standard `OTEL_*` variables configure it:
those of this process, as the SDK reads most of them itself.
"""

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import metadata
from typing import TYPE_CHECKING, Any

from agentforge.adapters.httpx_webhooks import causes
from agentforge.model.errors import InvalidRequest
from agentforge.model.failure import short_message
from agentforge.model.secrets import plain_address
from agentforge.model.variables import OTLP
from agentforge.system.loopback import remote_problem
from agentforge.version import __version__
from agentforge.views.spans import Span

if TYPE_CHECKING:
    import requests
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
DEFAULT = "http://localhost:4318"
NEEDED = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
NOT_SENT = frozenset({"agentforge.item"})
"""Attributes with what agents wrote; an error's message isn't sent either."""
_TRACE_ID = re.compile("(?!0{32})[0-9a-f]{32}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def collector(environ: Mapping[str, str], *, asked: bool = False) -> str | None:
    """Where spans are sent; None: nowhere. `asked`: also if no variable names a collector. Raises
    InvalidRequest."""

    def first(*names: str) -> str:
        return next((value for name in names if (value := environ.get(name, "").strip())), "")

    exporter = first("OTEL_TRACES_EXPORTER").lower()
    is_off = first("OTEL_SDK_DISABLED").lower() == "true" or exporter == "none"
    if is_off or not (asked or exporter or first(*ENDPOINTS)):
        return None
    if exporter not in ("", "otlp"):
        hint = "use otlp or none; `agentforge show SESSION --spans` prints the spans of a run"
        raise InvalidRequest(f"OTEL_TRACES_EXPORTER: {exporter!r} is not supported", hint=hint)
    if (protocol := first(*PROTOCOLS) or OTLP) != OTLP:
        raise InvalidRequest(
            f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol!r} is not supported",
            hint=f"use {OTLP}, on port 4318 of most collectors",
        )
    if missing := [name for name in NEEDED if not _is_installed(name)]:
        from agentforge.adapters.extras import install_command

        raise InvalidRequest(
            f"spans can't be exported: {' and '.join(missing)} not installed",
            hint=f"install with: {install_command('otel')}; OTEL_SDK_DISABLED=true turns it off",
        )
    address = first(ENDPOINTS[0]) or f"{(first(ENDPOINTS[1]) or DEFAULT).rstrip('/')}/v1/traces"
    if plain_address(address) is None:
        name = next(name for name in ENDPOINTS if first(name))
        hint = f"for example {DEFAULT}; credentials belong in OTEL_EXPORTER_OTLP_HEADERS"
        raise InvalidRequest(f"{name} is not a plain http(s) address", hint=hint)
    return address


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


class Collector:
    """`hide`: replaces secrets in a text."""

    def __init__(self, address: str, hide: Callable[[str], str]) -> None:
        import requests
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._address, self._hide, self._session = address, hide, requests.Session()
        self._problem = ""
        """Of the latest request: the SDK only logs it, and follows no redirect, but takes it for success."""
        self._request = self._session.request
        self._session.request = self._noted  # type: ignore[method-assign]
        self._exporter = OTLPSpanExporter(address, session=self._session)
        named = Resource({"service.name": "agentforge", "service.version": __version__})
        # Without the id of an instance, which would make every export of a span another one.
        self._resource = named.merge(OTELResourceDetector().detect())
        self._scope = InstrumentationScope("agentforge", __version__)

    def send(self, spans: Sequence[Span], *, is_local: bool) -> str:
        """Returns why the collector didn't take the spans; empty: it did. `is_local`: the run is, so the
        collector must be on this machine."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        # Again for each request: a name may lead elsewhere by then.
        if is_local and (why := remote_problem(self._address, {})):
            return f"`network: local`: {why}"
        self._problem = ""
        self._session.trust_env = not is_local  # A proxy may be elsewhere.
        done = self._exporter.export([self._readable(one) for one in spans])
        if done is SpanExportResult.SUCCESS and not self._problem:
            return ""
        return self._hide(f"{self._address}: {self._problem or 'the spans could not be encoded'}")

    def _noted(self, *args: Any, **options: Any) -> "requests.Response":
        try:
            response = self._request(*args, **options)
        except Exception as error:
            found = (one for one in causes(error) if isinstance(one, OSError) and one.errno)
            known = next(found, None)
            self._problem = os.strerror(known.errno or 0) if known else short_message(str(error))
            raise
        self._problem = "" if response.status_code < 300 else f"{response.status_code} {response.reason}"
        return response

    def _readable(self, one: Span) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Link, Status, StatusCode

        trace = _trace_id(one)
        return ReadableSpan(
            self._hide(one.name),
            _context(trace, one.span_id),
            _context(trace, one.parent_span_id) if one.parent_span_id else None,
            self._resource,
            {
                name: self._hide(value) if isinstance(value, str) else value
                for name, value in one.attributes.items()
                if name not in NOT_SENT
            },
            links=[Link(_context(trace, link)) for link in one.links],
            status=Status(StatusCode[one.status.upper()]),
            start_time=_nanoseconds(one.start_time),
            end_time=_nanoseconds(one.end_time or one.start_time),
            instrumentation_scope=self._scope,
        )


def _trace_id(one: Span) -> int:
    """The run's id, unless that has another form, as in a damaged log or one of the shell engine."""
    if _TRACE_ID.fullmatch(one.trace_id):
        return int(one.trace_id, 16)
    digest = hashlib.sha256(f"{one.trace_id} {one.attributes['agentforge.session']}".encode())
    return int(digest.hexdigest()[:32], 16)


def _context(trace: int, span: str) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(trace, int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(when: datetime) -> int:
    return (when - _EPOCH) // timedelta(microseconds=1) * 1000
