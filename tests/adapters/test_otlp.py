"""Spans as a collector gets them: all that they are, and nothing that an agent was told or has said."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.otlp_collector import as_got, as_sent, requests, sent, values
from tests.views.test_spans import hook, whole
from tests.webhook_server import Reply, WebhookServer, serving

import agentforge
from agentforge.adapters.otlp import Collector, collector
from agentforge.model import facts as f
from agentforge.model.errors import InvalidRequest
from agentforge.model.secrets import Redactor
from agentforge.version import __version__
from agentforge.views.spans import Span, spans_of

BASE, PATH = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
EXPORTER, DISABLED = "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"
TRACE = "0af7651916cd43dd8448eb211c80319c"
HERE = "http://localhost:4318/v1/traces"


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({}, None),
        ({BASE: "", EXPORTER: ""}, None),
        ({BASE: "https://c.example"}, "https://c.example/v1/traces"),
        ({BASE: "http://c.example:1/otel/"}, "http://c.example:1/otel/v1/traces"),
        ({BASE: "http://c.example", PATH: "http://d.example/in"}, "http://d.example/in"),
        ({EXPORTER: "otlp"}, HERE),
        ({EXPORTER: "none", BASE: "http://c.example"}, None),
        ({DISABLED: "TRUE", BASE: "http://c.example"}, None),
        ({DISABLED: "false", BASE: "http://c.example"}, "http://c.example/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", EXPORTER: "otlp"}, HERE),
    ],
)
def test_spans_are_sent_where_the_variables_say(environ: dict[str, str], address: str | None) -> None:
    assert collector(environ) == address


def test_spans_are_sent_to_this_machine_if_a_person_asks_for_it() -> None:
    assert collector({}, asked=True) == HERE
    assert collector({DISABLED: "true"}, asked=True) is None


@pytest.mark.parametrize(
    ("environ", "message", "hint"),
    [
        ({EXPORTER: "zipkin"}, "OTEL_TRACES_EXPORTER: 'zipkin' is not supported", "use otlp or none"),
        (
            {BASE: "http://c.example:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not supported",
            "use http/protobuf, on port 4318",
        ),
        ({BASE: "localhost:4318"}, f"{BASE} is not a plain", "OTEL_EXPORTER_OTLP_HEADERS"),
        ({PATH: "https://me:secret@c.example/"}, f"{PATH} is not a plain", "OTEL_EXPORTER_OTLP_HEADERS"),
    ],
)
def test_what_is_not_supported_is_refused(environ: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        collector(environ)
    assert message in refused.value.message
    assert hint in refused.value.hint


ALONE = """
import sys
sys.path[:0] = [{source!r}, {packages!r}]
from agentforge.adapters.otlp import collector
from agentforge.model.errors import InvalidRequest
print(collector({{}}))
try:
    collector({{}}, asked=True)
except InvalidRequest as error:
    print(error.message, error.hint)
"""


def test_missing_packages_are_named_with_the_way_to_install_them(tmp_path: Path) -> None:
    """In a Python that has what we need ourselves, and nothing else."""
    folder = Path(str(msgspec.__file__)).parent
    (tmp_path / folder.name).symlink_to(folder)
    script = ALONE.format(source=str(Path(agentforge.__file__).parent.parent), packages=str(tmp_path))
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    off, missing = ran.stdout.splitlines()
    assert off == "None"
    assert "opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http not installed" in missing
    assert "-m pip install '.[otel]', in a clone" in missing
    assert "OTEL_SDK_DISABLED=true" in missing


# -- what is sent


@contextmanager
def connected(*replies: Reply, secrets: tuple[str, ...] = ()) -> Iterator[tuple[WebhookServer, Collector]]:
    with serving(*replies) as server:
        yield server, Collector(f"{server.url}/v1/traces", Redactor(secrets).text)


def ended() -> list[Span]:
    story = whole().add(f.SessionRecovered(1, "host"))
    story.add(f.CheckStarted("lint"), story.events[10].cursor).add(f.SessionAborted("no time"))
    return [replace(one, trace_id=TRACE) for one in spans_of(story.fold)]


def test_all_of_a_span_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci,service.name=other")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
    spans = ended()
    assert {one.status for one in spans} == {"unset", "ok", "error"}
    assert any(one.links for one in spans)
    with connected() as (server, to):
        assert to.send(spans, is_local=True) == ""
    assert [as_got(one) for one in sent(server.received)] == [as_sent(one) for one in spans]
    (request,) = requests(server.received)
    (resource,) = request.resource_spans
    assert values(resource.resource.attributes) == {
        "service.name": "nightly",
        "service.version": __version__,
        "deployment.environment.name": "ci",
    }
    (scope,) = resource.scope_spans
    assert (scope.scope.name, scope.scope.version) == ("agentforge", __version__)


def test_headers_of_the_variables_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    with connected() as (server, to):
        assert to.send(ended(), is_local=False) == ""
    assert server.received[0].headers["authorization"] == "Bearer abc"
    assert server.received[0].path == "/v1/traces"


def test_second_export_is_the_same_as_the_first() -> None:
    with connected() as (server, to):
        assert to.send(ended(), is_local=False) == ""
        again = Collector(f"{server.url}/v1/traces", str)
        assert again.send(ended(), is_local=False) == ""
    first, second = (one.body for one in server.received)
    assert first == second


def test_nothing_is_sent_that_an_agent_or_a_program_has_said() -> None:
    told = "SECRET-WORDS"
    story = whole()
    story.add(f.IterationStarted("vote", "vote", told, told, "0", item=told), story.events[-3].cursor)
    failed = f.HookFailed("notify", "stage_end", "h-9", message=told)
    hook("h-9", story.events[5].cursor, story, failed, "other")
    story.add(f.CheckStarted("lint"), story.events[10].cursor)
    story.add(f.CheckCompleted("lint", 1, "fail", reason=told), story.events[10].cursor)
    story.add(f.SessionAborted(told))
    spans = spans_of(story.fold)
    assert told in str(spans)
    with connected() as (server, to):
        assert to.send(spans, is_local=False) == ""
    assert told.encode() not in server.received[0].body


def test_secrets_are_hidden() -> None:
    (run, *_) = ended()
    named = replace(
        run, name="run key-12345", attributes={**run.attributes, "agentforge.pipeline": "key-12345"}
    )
    with connected(secrets=("key-12345",)) as (server, to):
        assert to.send([named], is_local=False) == ""
    assert b"12345" not in server.received[0].body
    assert b"[secret]" in server.received[0].body


@pytest.mark.parametrize("trace", ["", "0" * 32, "a" * 31, "x" * 32])
def test_trace_id_of_another_form_is_replaced_by_one_of_the_run(trace: str) -> None:
    (one, *_) = ended()
    other = replace(one, trace_id=trace, attributes={"agentforge.session": "other"})
    with connected() as (server, to):
        assert to.send([replace(one, trace_id=trace), other, other], is_local=False) == ""
    ids = [span.trace_id for span in sent(server.received)]
    assert {len(id) for id in ids} == {16}
    assert ids[0] != ids[1] == ids[2]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(401), "401 Unauthorized"),
        (Reply(307, headers={"Location": "http://203.0.113.7/"}), "307 Temporary Redirect"),
    ],
)
def test_reason_of_the_collector_is_told(reply: Reply, said: str) -> None:
    with connected(reply, Reply()) as (server, to):
        assert to.send(ended(), is_local=False) == f"{server.url}/v1/traces: {said}"
        assert to.send(ended(), is_local=False) == ""


def test_unreachable_collector_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with serving() as server:
        address = f"{server.url}/v1/traces"
    assert Collector(address, str).send(ended(), is_local=False) == f"{address}: Connection refused"


def test_local_run_reaches_only_a_collector_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    to: Any = Collector("http://203.0.113.7:4318/v1/traces", str)
    said = to.send(ended(), is_local=True)
    assert said == "`network: local`: 203.0.113.7 is not on this machine"
    monkeypatch.setenv("HTTP_PROXY", "http://203.0.113.7:1")
    with connected() as (server, to):
        assert to.send(ended(), is_local=True) == "", "no proxy is asked"
    assert len(server.received) == 1
