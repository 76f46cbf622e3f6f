"""Providers in an engine: registered, set up once, given their turns, shut down on every way out."""

import asyncio
from pathlib import Path

import pytest
from tests.sdk.projects import ENVIRON, Gate, engine, node, pipeline, run, types

from agentforge.model.errors import DefinitionError, ProviderUnusable, UnknownProvider
from agentforge.model.status import RunStatus
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import raises, says

UP = ["init", "validate"]


def test_register_provider_custom_provider_is_used(tmp_path: Path) -> None:
    mine = ScriptedProvider([says("mine")], name="mine")

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.register_provider("mine", mine)
            result = await sdk.run(
                pipeline(node(provider={"type": "mine", "key": 7}, model="m1")), session="s"
            )
        assert result.completed

    run(main())
    (call,) = mine.calls
    assert (call.model, call.config, call.prompt) == ("m1", {"key": 7}, "do it")
    assert call.workdir == str(tmp_path)


def test_provider_is_initialised_then_validated_when_registered_and_shut_down_at_the_end(
    tmp_path: Path,
) -> None:
    mine = ScriptedProvider([says("mine")])

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.register_provider("mine", mine)
            assert mine.lifecycle == UP
            await sdk.run(pipeline(node(provider="mine")), session="s")
            assert mine.lifecycle == UP
        assert mine.lifecycle == [*UP, "shutdown"]

    run(main())


def test_provider_whose_init_fails_is_not_registered(tmp_path: Path) -> None:
    class Broken(ScriptedProvider):
        async def init(self) -> None:
            raise RuntimeError("no connection")

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            with pytest.raises(ProviderUnusable, match="'mine' is not usable: no connection"):
                await sdk.register_provider("mine", Broken([says("x")]))
            with pytest.raises(DefinitionError) as caught:
                await sdk.run(pipeline(node(provider="mine")), session="s")
            assert caught.value.diagnostics[0].code == "unknown-provider"
            assert "scripted" in caught.value.diagnostics[0].hint

    run(main())


def test_provider_that_does_not_validate_after_init_is_released_and_not_registered(tmp_path: Path) -> None:
    mine = ScriptedProvider([says("x")], unusable="set MY_KEY first")

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            with pytest.raises(ProviderUnusable, match="set MY_KEY first"):
                await sdk.register_provider("mine", mine)
            assert "mine" not in sdk._registry.names

    run(main())
    assert mine.lifecycle == [*UP, "shutdown"]


def test_unusable_provider_of_a_run_is_refused_before_the_run_starts(tmp_path: Path) -> None:
    with SyncEngine(
        tmp_path, providers={"scripted": ScriptedProvider([says("x")], unusable="no")}, environ=ENVIRON
    ) as sdk:
        with pytest.raises(ProviderUnusable):
            sdk.run(pipeline(), session="s")
        assert sdk.engine.list() == []


def test_registering_again_replaces_the_provider_and_shuts_the_old_one_down(tmp_path: Path) -> None:
    old, new = ScriptedProvider([says("old")]), ScriptedProvider([says("new")])

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.register_provider("mine", old)
            await sdk.register_provider("mine", new)
            assert old.lifecycle == [*UP, "shutdown"]
            await sdk.run(pipeline(node(provider="mine")), session="s")

    run(main())
    assert (len(old.calls), len(new.calls)) == (0, 1)


def test_unknown_provider_returns_clear_error_with_list_of_available_providers(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, environ=ENVIRON) as sdk:
        with pytest.raises(UnknownProvider, match="unknown provider 'nobody'") as caught:
            sdk.engine._registry["nobody"]
        assert "command" in caught.value.hint
        assert "mock" in caught.value.hint


def test_process_without_the_run_s_provider_does_not_continue_it(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        sdk.run(pipeline(node(runs=2)), session="s")
    log = tmp_path / ".claude/pipeline-runs/s/events.jsonl"
    cut = b"".join(log.read_bytes().splitlines(keepends=True)[:5])
    log.write_bytes(cut)
    with SyncEngine(tmp_path, environ=ENVIRON) as sdk, pytest.raises(UnknownProvider):
        sdk.recover("s")
    assert log.read_bytes() == cut


@pytest.mark.parametrize("way_out", ["normal", "exception", "cancelled"])
def test_shutdown_is_called_on_every_exit_path(tmp_path: Path, way_out: str) -> None:
    gate = Gate()

    async def main() -> None:
        async with engine(tmp_path, gate, stop_grace=0) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            if way_out == "cancelled":
                going.cancel()
                await asyncio.wait([going])
                assert going.cancelled()
                raise asyncio.CancelledError
            gate.finish.set()
            await going
            if way_out == "exception":
                raise ZeroDivisionError

    if way_out == "normal":
        run(main())
    else:
        with pytest.raises((ZeroDivisionError, asyncio.CancelledError)):
            run(main())
    assert gate.inner.lifecycle == [*UP, "shutdown"]


def test_shutdown_that_fails_is_logged_and_blocks_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck(ScriptedProvider):
        async def shutdown(self) -> None:
            raise OSError("still busy")

    fine = ScriptedProvider([says("x")])

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.register_provider("a-stuck", Stuck([says("x")]))
            await sdk.register_provider("fine", fine)

    run(main())
    assert fine.lifecycle[-1] == "shutdown"
    assert "a-stuck failed to shut down" in caplog.text


def test_provider_that_raises_is_a_crash_of_the_provider(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([raises(ValueError("bad answer"))])
        async with engine(tmp_path, provider) as sdk:
            result = await sdk.run(pipeline(node(retry={"max_attempts": 1})), session="s")
        assert (result.status, result.error_type) == (RunStatus.FAILED, "provider_crashed")
        assert result.error == "scripted raised ValueError: bad answer"

    run(main())


def test_provider_that_times_out_by_itself_is_a_provider_timeout(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([raises(TimeoutError("no answer"))])) as sdk:
            result = await sdk.run(pipeline(node(retry={"max_attempts": 1})), session="s")
        assert result.error_type == "provider_timeout"

    run(main())


def test_iteration_that_takes_longer_than_its_timeout_is_ended(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, Gate()) as sdk:
            result = await sdk.run(pipeline(node(timeout=0.05, retry={"max_attempts": 1})), session="s")
        assert result.error_type == "iteration_timeout"
        assert result.error == "stage 'plan' took longer than 0.05 s"

    run(main())


# -- concurrency


def test_engine_is_safe_for_concurrent_runs_with_different_sessions(tmp_path: Path) -> None:
    together = asyncio.Barrier(20)

    class Together(ScriptedProvider):
        """The calls of the same iteration wait for each other."""

        async def execute(self, request: ExecuteRequest) -> ExecuteResult:
            await together.wait()
            return await super().execute(request)

    provider = Together([says("x")])

    async def main() -> None:
        async with engine(tmp_path, provider) as sdk:
            runs = [sdk.run(pipeline(node(runs=3)), session=f"s{number}") for number in range(20)]
            results = await asyncio.gather(*runs)
            assert [result.iterations for result in results] == [3] * 20
            assert all(result.completed for result in results)
            assert len(sdk.list(50)) == 20

    run(main())
    assert provider.lifecycle == [*UP, "shutdown"], "set up once, however many runs began at once"
    assert provider.max_concurrent_calls == 20
    one = types(tmp_path, "s0")
    assert all(types(tmp_path, f"s{number}") == one for number in range(20))


def test_non_concurrent_provider_is_serialised(tmp_path: Path) -> None:
    provider = ScriptedProvider([says("x")], seconds=0.1, concurrent=False)

    async def main() -> None:
        async with engine(tmp_path, provider) as sdk:
            patient = pipeline(node(runs=2, timeout=2.5))
            results = await asyncio.gather(*(sdk.run(patient, session=f"s{n}") for n in range(15)))
            # Waiting in line doesn't count as working, or the timeout would strike.
            assert all(result.completed for result in results)

    run(main())
    assert provider.max_concurrent_calls == 1
    assert len(provider.calls) == 30


def test_multiple_engines_run_concurrently(tmp_path: Path) -> None:
    one, two = ScriptedProvider([says("one")], seconds=0.01), ScriptedProvider([says("two")], seconds=0.01)

    async def main() -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        async with engine(tmp_path / "a", one) as first, engine(tmp_path / "b", two) as second:
            results = await asyncio.gather(
                first.run(pipeline(node(runs=5)), session="s"),
                second.run(pipeline(node(runs=5)), session="s"),
            )
            assert all(result.completed for result in results)
            assert [row.session for row in first.list()] == ["s"]
            await first.register_provider("only-here", ScriptedProvider([says("x")]))
            assert "only-here" not in second._registry.names

    run(main())
    assert (len(one.calls), len(two.calls)) == (5, 5)
    assert {call.workdir for call in one.calls} == {str(tmp_path / "a")}
