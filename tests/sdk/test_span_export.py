"""The spans of runs at a collector: all of them, whatever becomes of the engine; and no run waits for it."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.otlp_collector import expected, got, sent
from tests.sdk.approvals import with_approval
from tests.sdk.projects import ENVIRON, cut_log, engine, eventually, node, pipeline, run, run_dir
from tests.webhook_server import Received, Reply, serving

from agentforge import HookContext, export_spans
from agentforge.model.errors import AgentForgeError, InvalidRequest, UnknownRun
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says
from agentforge.views.spans import Span

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HANGS = Reply(hangs=True)


def exporting(project: Path, url: str, provider: ScriptedProvider | None = None, **more: str) -> Engine:
    return engine(project, provider, environ={**ENVIRON, ENDPOINT: url, **more})


def spans(project: Path, session: str = "s") -> list[Span]:
    return engine(project).work(session).spans()


def cut(project: Path, lines: int) -> None:
    cut_log(project, (run_dir(project) / "events.jsonl").read_bytes().splitlines(keepends=True)[:lines])


def all_are(received: Sequence[Received], *found: list[Span]) -> bool:
    return got(received) == expected(one for spans in found for one in spans)


def test_spans_of_a_run_reach_the_collector_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with exporting(tmp_path, server.url) as sdk:
            assert (await sdk.run(pipeline(node(runs=3)), session="s")).completed
        await eventually(lambda: all_are(server.received, spans(tmp_path)))

    with serving() as server:
        run(main())
        assert len(sent(server.received)) == len(spans(tmp_path)) == 8


def test_span_is_sent_once_and_when_it_is_settled(tmp_path: Path) -> None:
    """While the run is running, and while it waits for a person."""

    async def main() -> None:
        async with exporting(tmp_path, server.url) as sdk:

            @sdk.on_iteration_end
            async def watch(_: HookContext) -> None:
                await eventually(lambda: server.received)

            compiled = with_approval(sdk.compile(pipeline(node(runs=2)), session="s"))
            assert (await sdk.start(compiled)).status == "awaiting_approval"
            settled = [one for one in spans(tmp_path) if one.is_settled]
            await eventually(lambda: all_are(server.received, settled))
            assert len(sent(server.received)) == len(settled)
            assert [one.name for one in settled if one.type == "iteration"] == ["iteration plan"]
            result = await sdk.answer("s", "approve")
            assert result is not None
            assert result.completed
        await eventually(lambda: all_are(server.received, spans(tmp_path)))

    with serving() as server:
        run(main())
        assert sent(server.received)[0].name == "attempt scripted"


def test_run_that_is_started_over_is_another_trace(tmp_path: Path) -> None:
    async def main() -> None:
        async with exporting(tmp_path, server.url) as sdk:
            await sdk.run(pipeline(), session="s")
            await eventually(lambda: server.received)
            await sdk.run(pipeline(), session="s", force=True)
        await eventually(lambda: of_second() == expected(spans(tmp_path)))

    def of_second() -> dict[str, Any]:
        trace = spans(tmp_path)[0].trace_id
        return {id: one for id, one in got(server.received).items() if one[0] == trace}

    with serving(Reply(400), Reply()) as server:
        run(main())


def test_runs_of_one_engine_have_one_program(tmp_path: Path) -> None:
    async def main() -> None:
        async with exporting(tmp_path, server.url) as sdk:
            for session in ("a", "b"):
                await sdk.run(pipeline(), session=session)
        await eventually(lambda: all_are(server.received, spans(tmp_path, "a"), spans(tmp_path, "b")))

    with serving() as server:
        run(main())


def test_run_that_is_continued_keeps_its_ids(tmp_path: Path) -> None:
    """Its root ends twice: with the failure, and with the run."""
    steps = [says("one"), crashes(), says("two"), says("three")]

    async def main() -> None:
        async with exporting(tmp_path, server.url, ScriptedProvider(steps)) as sdk:
            plan = pipeline(node(runs=3, retry={"max_attempts": 1}))
            assert not (await sdk.run(plan, session="s")).completed
            await eventually(lambda: all_are(server.received, spans(tmp_path)))
            first = got(server.received)
            assert (await sdk.resume("s")).completed
        await eventually(lambda: all_are(server.received, spans(tmp_path)))
        assert first.keys() < got(server.received).keys()

    with serving() as server:
        run(main())
    assert [one.name for one in spans(tmp_path) if one.links] == ["attempt scripted"]


@pytest.mark.parametrize("lines", [4, 8, 13])
def test_what_an_engine_lost_is_exported_by_the_next(tmp_path: Path, lines: int) -> None:
    """Its log was cut, and its collector was out of reach."""

    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([says("done")] * 9)) as sdk:
            assert (await sdk.run(pipeline(node(runs=4)), session="s")).completed
        cut(tmp_path, lines)
        async with exporting(tmp_path, server.url, ScriptedProvider([says("done")] * 9)) as sdk:
            result = await sdk.recover("s")
            assert result is not None
            assert result.completed
        await eventually(lambda: all_are(server.received, spans(tmp_path)))

    with serving() as server:
        run(main())


def test_request_that_failed_is_repeated(tmp_path: Path) -> None:
    async def main() -> None:
        async with exporting(tmp_path, server.url) as sdk:
            for session in ("a", "b"):
                await sdk.run(pipeline(), session=session)
                await eventually(lambda: server.received)
        await eventually(lambda: all_are(server.received[1:], spans(tmp_path, "a"), spans(tmp_path, "b")))

    with serving(Reply(400), Reply()) as server:
        run(main())


def test_collector_that_does_not_answer_holds_up_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It answers only when the test ends."""

    async def main() -> None:
        async with exporting(tmp_path, server.url) as sdk:
            assert (await sdk.run(pipeline(), session="s")).completed

    with serving(HANGS) as server, caplog.at_level(logging.WARNING):
        run(main())
        assert not server.closing.is_set()
    (said,) = [record.getMessage() for record in caplog.records if "spans" in record.getMessage()]
    assert said.startswith(f"{server.url}/v1/traces has not taken all spans yet")


def test_what_is_wrong_with_the_variables_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with exporting(tmp_path, "http://localhost", OTEL_EXPORTER_OTLP_PROTOCOL="grpc") as sdk:
            assert (await sdk.run(pipeline(), session="s")).completed

    with caplog.at_level(logging.WARNING):
        run(main())
    assert "no spans are exported: OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not supported" in caplog.text


def test_replay_is_not_exported(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.run(pipeline(), session="s", record=True)
        async with exporting(tmp_path, server.url) as sdk:
            assert (await sdk.replay("s", session="again")).completed
            await sdk.run(pipeline(), session="other")
        await eventually(lambda: all_are(server.received, spans(tmp_path, "other")))

    with serving() as server:
        run(main())


# -- on request


def test_run_is_exported_on_request_as_it_would_be_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.run(pipeline(), session="s")

    run(main())
    with serving() as server:
        runs = exporting(tmp_path, server.url).runs
        assert export_spans(runs, "s") == len(spans(tmp_path))
        assert all_are(server.received, spans(tmp_path))
    with serving(Reply(400)) as server:
        runs = exporting(tmp_path, server.url).runs
        with pytest.raises(AgentForgeError, match="400 Bad Request"):
            export_spans(runs, "s")
    with pytest.raises(InvalidRequest, match="no spans are exported: OTEL_SDK_DISABLED"):
        export_spans(exporting(tmp_path, "", OTEL_SDK_DISABLED="true").runs, "s")
    with pytest.raises(UnknownRun):
        export_spans(exporting(tmp_path, "").runs, "nosuch")


def test_paused_run_is_exported_as_far_as_it_got(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([says("done")] * 3)) as sdk:
            compiled = sdk.compile(pipeline(node(runs=3)), session="s")
            await sdk.start(compiled)

    run(main())
    cut(tmp_path, 8)
    found = [one for one in spans(tmp_path) if one.end_time]
    assert 0 < len(found) < len(spans(tmp_path))
    assert not all(one.is_settled for one in found)
    with serving() as server:
        assert export_spans(exporting(tmp_path, server.url).runs, "s") == len(found)
        assert got(server.received) == expected(found)
