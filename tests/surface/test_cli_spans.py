"""Runs as traces: exported while they run, after an engine was killed, and on request."""

import signal

import pytest
from tests.otlp_collector import expected, got
from tests.sampling import one_in
from tests.surface.terminal import WRITE_RESULT, Project, wait_for
from tests.surface.test_cli_startup import loading
from tests.webhook_server import serving

from agentforge import Runs
from agentforge.views.record import record_of
from agentforge.views.spans import Span, spans_of

ENDPOINT, DISABLED = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED"


def spans(project: Project, session: str = "auth") -> list[Span]:
    return spans_of(record_of(Runs(project.root, project.env).events(session)))


@pytest.mark.crash
@pytest.mark.parametrize(
    "moment", one_in(2, ["node_start", "iteration_start", "iteration_complete", "third attempt"])
)
def test_all_spans_of_a_run_are_exported_that_is_killed_and_continued(project: Project, moment: str) -> None:
    agent = f"until [ -e go ]; do sleep 0.05; done; {WRITE_RESULT}"
    file = project.pipeline(f"plan*2={WRITE_RESULT}", f"build*2={agent}")
    with serving() as server:
        env = {ENDPOINT: server.url}
        with project.started("run", "-p", file, "-s", "auth", env=env) as engine:
            if moment == "third attempt":
                wait_for(lambda: project.types("auth").count("attempt_start") == 3, moment)
            else:
                wait_for(lambda: moment in project.types("auth"), moment)
            engine.signal(signal.SIGKILL)
            engine.end()
        ended = expected(one for one in spans(project) if one.is_settled)
        wait_for(lambda: ended.items() <= got(server.received).items(), "what the killed engine left")
        (project.root / "go").touch()
        done = project.call("recover", "auth", env=env)
        assert done.code == 0, done.err
        assert project.state("auth")["status"] == "completed"
        wait_for(lambda: got(server.received) == expected(spans(project)), "the spans of the log")


def test_run_is_exported_on_request(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    with serving() as server:
        done = project.call("log", "spans", "auth", env={ENDPOINT: server.url})
        assert (done.code, done.out, done.err) == (0, "Exported 4 spans of session 'auth'\n", "")
        assert got(server.received) == expected(spans(project))
    done = project.call("log", "spans", env={ENDPOINT: server.url, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"})
    assert done.code == 1
    assert "the spans of session 'auth' were not exported" in done.err
    assert "hint: start the collector" in done.err
    assert "Connection refused" in done.err
    done = project.call("log", "spans", "auth", env={DISABLED: "true"})
    assert done.code == 2
    assert "no spans are exported: OTEL_SDK_DISABLED" in done.err


def test_a_collector_elsewhere_is_refused_in_a_local_run(project: Project) -> None:
    file, env = project.pipeline(f"plan={WRITE_RESULT}"), {ENDPOINT: "http://203.0.113.7:4318"}
    done = project.call("run", "-p", file, "-s", "auth", "--local", env=env)
    assert done.code == 1
    assert f"{ENDPOINT}: the run has `network: local`" in done.err
    assert "203.0.113.7 is not on this machine" in done.err
    assert not project.run_dir("auth").exists()
    assert project.call("run", "-p", file, "-s", "auth", "--local", env=env | {DISABLED: "true"}).code == 0
    done = project.call("log", "spans", "auth", env=env)
    assert "network: local" in done.err
    assert project.call("run", "-p", file, "-s", "other").code == 0
    settings = project.home / ".config" / "agentforge" / "settings.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("network: local\n")
    done = project.call("log", "spans", "other", env=env)
    assert "`network: local`: 203.0.113.7 is not on this machine" in done.err


@pytest.mark.parametrize("environ", [{}, {ENDPOINT: "http://127.0.0.1:9", DISABLED: "true"}])
def test_nothing_of_opentelemetry_is_imported_by_a_run(project: Project, environ: dict[str, str]) -> None:
    """Nor by one that is exported: that is another program's work."""
    file = project.pipeline(f"plan={WRITE_RESULT}")
    project.env |= environ
    heavy = ("opentelemetry", "google.protobuf", "requests")
    done = loading(project, heavy, "run", "-p", file, "-s", "auth")
    assert done.returncode == 0, done.stderr
    with serving() as server:
        project.env = {**project.env, ENDPOINT: server.url, DISABLED: "false"}
        done = loading(project, heavy, "run", "-p", file, "-s", "exported")
        assert done.returncode == 0, done.stderr
        wait_for(lambda: got(server.received) == expected(spans(project, "exported")), "the spans")
