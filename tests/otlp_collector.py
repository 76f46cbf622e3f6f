"""What a collector of OpenTelemetry got: the spans in the requests to a web service."""

from collections.abc import Iterable, Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from tests.webhook_server import Received

from agentforge.views.spans import Span

STATUS: dict[str, Any] = {
    "unset": Status.STATUS_CODE_UNSET,
    "ok": Status.STATUS_CODE_OK,
    "error": Status.STATUS_CODE_ERROR,
}


def requests(received: Iterable[Received]) -> list[ExportTraceServiceRequest]:
    return [ExportTraceServiceRequest.FromString(one.body) for one in received]


def sent(received: Iterable[Received]) -> list[Sent]:
    """In the order in which they came."""
    return [
        span
        for request in requests(received)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def values(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in attributes:
        kind = one.value.WhichOneof("value")
        assert kind is not None
        found[one.key] = getattr(one.value, kind)
    return found


def as_sent(one: Span) -> tuple[Any, ...]:
    """What a collector should get of a span."""
    assert one.end_time is not None
    return (
        one.trace_id,
        one.span_id,
        one.parent_span_id or "",
        one.name,
        _nanoseconds(one.start_time.timestamp()),
        _nanoseconds(one.end_time.timestamp()),
        STATUS[one.status],
        {name: value for name, value in one.attributes.items() if name != "agentforge.item"},
        one.links,
    )


def as_got(one: Sent) -> tuple[Any, ...]:
    assert not one.status.message
    assert not one.events
    return (
        one.trace_id.hex(),
        one.span_id.hex(),
        one.parent_span_id.hex(),
        one.name,
        _nanoseconds(one.start_time_unix_nano / 1e9),
        _nanoseconds(one.end_time_unix_nano / 1e9),
        one.status.code,
        values(one.attributes),
        tuple(link.span_id.hex() for link in one.links),
    )


def got(received: Sequence[Received]) -> dict[str, tuple[Any, ...]]:
    """By id, as it came last."""
    return {one.span_id.hex(): as_got(one) for one in sent(received)}


def expected(spans: Iterable[Span]) -> dict[str, tuple[Any, ...]]:
    return {one.span_id: as_sent(one) for one in spans}


def _nanoseconds(seconds: float) -> int:
    """To the microsecond, as times of the log are."""
    return round(seconds * 1e6) * 1000
