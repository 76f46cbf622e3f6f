"""A provider's life in an engine: up once, validated, down once, on every way out, under every name."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.sdk.projects import Gate, engine, node, pipeline, run

from agentforge.app.providers import registry
from agentforge.app.providers.registry import Registry
from agentforge.model.errors import AgentForgeError, InvalidRequest, ProviderUnusable, UnknownProvider
from agentforge.ports.provider import Capabilities, ExecuteRequest, ExecuteResult
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says
from agentforge.views.results import RunResult

UP = ["init", "validate"]
WHOLE = [*UP, "shutdown"]


def fine(name: str = "mine", **options: object) -> ScriptedProvider:
    return ScriptedProvider([says("done")], name=name, **options)  # type: ignore[arg-type]


class Slow(ScriptedProvider):
    """Initializes and shuts down only when the test allows it."""

    def __init__(self) -> None:
        super().__init__([says("done")])
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def wait(self) -> None:
        self.begun.set()
        await self.go.wait()


class SlowUp(Slow):
    async def init(self) -> None:
        await super().init()
        await self.wait()


class SlowDown(Slow):
    async def shutdown(self) -> None:
        await self.wait()
        await super().shutdown()


class TestEveryWayOut:
    def lives(self, project: Path, act: Callable[[Engine], Awaitable[object]]) -> list[str]:
        provider = ScriptedProvider([crashes(), says("done")])

        async def main() -> None:
            async with engine(project, provider) as sdk:
                await act(sdk)

        run(main())
        return provider.lifecycle

    def test_a_run_that_fails(self, tmp_path: Path) -> None:
        once = pipeline(node(retry={"max_attempts": 1}))
        assert self.lives(tmp_path, lambda sdk: sdk.run(once, session="s")) == WHOLE

    def test_a_start_that_is_refused_because_the_name_is_in_use(self, tmp_path: Path) -> None:
        async def twice(sdk: Engine) -> None:
            await sdk.run(pipeline(), session="s")
            with pytest.raises(AgentForgeError, match="'s'"):
                await sdk.run(pipeline(), session="s")

        assert self.lives(tmp_path, twice) == WHOLE

    def test_a_start_that_is_refused_because_another_provider_is_broken(self, tmp_path: Path) -> None:
        async def refused(sdk: Engine) -> None:
            assert await sdk._registry.try_ready(["scripted"]) == {}
            with pytest.raises(ProviderUnusable):
                await sdk.register_provider("broken", fine(unusable="no key"))

        assert self.lives(tmp_path, refused) == WHOLE

    def test_a_run_that_is_paused_and_resumed_by_the_same_engine(self, tmp_path: Path) -> None:
        async def again(sdk: Engine) -> None:
            await sdk.run(pipeline(node(retry={"max_attempts": 1})), session="s")
            assert (await sdk.resume("s")).completed

        assert self.lives(tmp_path, again) == WHOLE

    def test_a_run_that_is_cancelled_for_good(self, tmp_path: Path) -> None:
        gate = Gate()

        async def main() -> None:
            async with engine(tmp_path, gate, stop_grace=0) as sdk:
                going = asyncio.create_task(sdk.run(pipeline(), session="s"))
                await gate.working.wait()
                await sdk.cancel("s")
                await going

        run(main())
        assert gate.inner.lifecycle == WHOLE

    def test_a_task_that_is_cancelled_while_the_provider_initializes(self, tmp_path: Path) -> None:
        slow = SlowUp()

        async def main() -> None:
            async with engine(tmp_path, slow) as sdk:
                going = asyncio.create_task(sdk.run(pipeline(), session="s"))
                await slow.begun.wait()
                going.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await going

        run(main())
        assert slow.lifecycle == ["init", "shutdown"]

    def test_a_task_that_is_cancelled_while_providers_are_shut_down(self, tmp_path: Path) -> None:
        slow, other = SlowDown(), fine()

        async def main() -> None:
            sdk = engine(tmp_path, slow)
            await sdk.register_provider("other", other)
            assert await sdk._registry.try_ready(["scripted"]) == {}
            closing = asyncio.create_task(sdk.close())
            await slow.begun.wait()
            closing.cancel()
            await asyncio.sleep(0)
            slow.go.set()
            with pytest.raises(asyncio.CancelledError):
                await closing

        run(main())
        assert (slow.lifecycle, other.lifecycle) == (WHOLE, WHOLE)

    def test_closing_twice(self, tmp_path: Path) -> None:
        async def twice(sdk: Engine) -> None:
            assert await sdk._registry.try_ready(["scripted"]) == {}
            await sdk.close()

        assert self.lives(tmp_path, twice) == WHOLE


def test_a_provider_whose_init_fails_is_released_and_tried_again_by_the_next_run(tmp_path: Path) -> None:
    class Flaky(ScriptedProvider):
        async def init(self) -> None:
            await super().init()
            if self.lifecycle.count("init") == 1:
                raise ConnectionError("no connection yet")

    flaky = Flaky([says("done")])

    async def main() -> None:
        async with engine(tmp_path, flaky) as sdk:
            with pytest.raises(ProviderUnusable, match="no connection yet"):
                await sdk.run(pipeline(), session="a")
            assert flaky.lifecycle == ["init", "shutdown"]
            assert (await sdk.run(pipeline(), session="b")).completed

    run(main())
    assert flaky.lifecycle == ["init", "shutdown", *WHOLE]


def test_a_provider_that_does_not_initialize_in_time_is_refused(tmp_path: Path) -> None:
    slow = SlowUp()

    async def main() -> None:
        async with engine(tmp_path, slow) as sdk:
            (error,) = (await sdk._registry.try_ready(["scripted"], seconds=0.05)).values()
            assert error.message == "provider 'scripted' failed to initialize within 0.05 s"

    run(main())
    assert slow.lifecycle == ["init", "shutdown"]


def test_a_shutdown_without_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registry, "SHUTDOWN_SECONDS", 0.05)
    stuck, other = SlowDown(), fine()

    async def main() -> None:
        registry = Registry(dict, {"stuck": stuck, "other": other})
        assert await registry.try_ready(["stuck", "other"]) == {}
        await registry.close()

    run(main())
    assert other.lifecycle == WHOLE
    assert "provider stuck failed to shut down" in caplog.text


class TestTwoNamesForOneProvider:
    def test_provider_is_initialized_once_and_shut_down_once(self, tmp_path: Path) -> None:
        mine = fine()

        async def main() -> None:
            async with engine(tmp_path) as sdk:
                await sdk.register_provider("a", mine)
                await sdk.register_provider("b", mine)
                nodes = [node("one", provider="a"), node("two", provider="b")]
                assert (await sdk.run(pipeline(*nodes), session="s")).completed

        run(main())
        assert (mine.lifecycle, len(mine.calls)) == (WHOLE, 2)

    def test_provider_stays_initialized_while_it_has_a_name(self, tmp_path: Path) -> None:
        mine = fine()

        async def main() -> None:
            async with engine(tmp_path) as sdk:
                await sdk.register_provider("a", mine)
                await sdk.register_provider("b", mine)
                await sdk.unregister_provider("a")
                assert mine.lifecycle == UP
                await sdk.unregister_provider("b")
                assert mine.lifecycle == WHOLE

        run(main())
        assert mine.lifecycle == WHOLE

    def test_calls_are_serialised_if_it_is_not_concurrent(self, tmp_path: Path) -> None:
        mine = fine(concurrent=False, seconds=0.01)

        async def main() -> None:
            async with engine(tmp_path) as sdk:
                await sdk.register_provider("a", mine)
                await sdk.register_provider("b", mine)
                runs = [
                    sdk.run(pipeline(node(runs=2, provider="ab"[number % 2])), session=f"s{number}")
                    for number in range(8)
                ]
                assert all(result.completed for result in await asyncio.gather(*runs))

        run(main())
        assert (mine.max_concurrent_calls, len(mine.calls)) == (1, 16)


class TestUnregistering:
    def test_unregistered_provider_is_shut_down_and_unknown(self, tmp_path: Path) -> None:
        mine = fine()

        async def main() -> None:
            async with engine(tmp_path) as sdk:
                await sdk.register_provider("mine", mine)
                await sdk.unregister_provider("mine")
                assert mine.lifecycle == WHOLE
                assert "mine" not in sdk._registry.names
                with pytest.raises(UnknownProvider, match="unknown provider 'mine'"):
                    await sdk.unregister_provider("mine")

        run(main())
        assert mine.lifecycle == WHOLE

    def test_overridden_provider_is_available_again(self, tmp_path: Path) -> None:
        async def main() -> None:
            async with engine(tmp_path) as sdk:
                built_in = sdk._registry["mock"]
                mine = fine("mock")
                await sdk.register_provider("mock", mine)
                assert sdk._registry["mock"] is mine
                await sdk.unregister_provider("mock")
                assert sdk._registry["mock"] is built_in

        run(main())

    def test_provider_that_was_never_registered_stays(self, tmp_path: Path) -> None:
        async def main() -> None:
            async with engine(tmp_path) as sdk:
                with pytest.raises(InvalidRequest, match="'mock' was not registered in code: it is built in"):
                    await sdk.unregister_provider("mock")

        run(main())


@pytest.mark.parametrize("act", ["replace", "unregister"])
def test_a_provider_in_use_stays_until_the_run_has_stopped(tmp_path: Path, act: str) -> None:
    gate, new = Gate(), fine("scripted")

    async def main() -> None:
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()

            async def change() -> None:
                if act == "replace":
                    await sdk.register_provider("scripted", new)
                else:
                    await sdk.unregister_provider("scripted")

            with pytest.raises(InvalidRequest, match="while session 's' is using it"):
                await change()
            gate.finish.set()
            assert (await going).completed
            assert (gate.inner.lifecycle, new.lifecycle) == (UP, [])
            await change()
            assert gate.inner.lifecycle == WHOLE

    run(main())
    assert new.lifecycle == (WHOLE if act == "replace" else [])


def test_registering_the_same_provider_again_keeps_it_initialized(tmp_path: Path) -> None:
    mine = fine()

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.register_provider("mine", mine)
            await sdk.register_provider("mine", mine)
            assert mine.lifecycle == UP

    run(main())
    assert mine.lifecycle == WHOLE


def test_entry_points_are_loaded_only_when_a_provider_is_needed() -> None:
    asked: list[int] = []

    def find() -> dict[str, object]:
        asked.append(1)
        return {}

    registry = Registry(find, {"mine": fine()})  # type: ignore[arg-type]
    assert asked == []
    assert (registry.names, registry.names, asked) == (["mine"], ["mine"], [1])


class OnlyExecutes:
    name = "bad"

    async def execute(self, _: object) -> None: ...


@pytest.mark.parametrize("registered", [True, False])
def test_provider_without_methods_is_refused_with_their_names(
    registered: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = OnlyExecutes()

    async def main() -> None:
        given = {} if registered else {"bad": bad}
        async with Engine(tmp_path, providers=given) as sdk:  # type: ignore[arg-type]
            if registered:
                await sdk.register_provider("bad", bad)  # type: ignore[arg-type]
            await sdk.run(pipeline({**node("plan"), "provider": "bad"}), session="s")

    missing = "'bad' is incomplete: OnlyExecutes lacks init, shutdown, capabilities, validate"
    with pytest.raises(AgentForgeError, match=missing):
        run(main())
    assert caplog.records == []


class SaysFive(ScriptedProvider):
    def capabilities(self) -> Capabilities:
        return 5  # type: ignore[return-value]


class Raises(ScriptedProvider):
    def capabilities(self) -> Capabilities:
        raise KeyError("x")


class SyncInit(ScriptedProvider):
    def init(self) -> None:  # type: ignore[override]
        pass


class SyncExecute(ScriptedProvider):
    def execute(self, request: ExecuteRequest) -> ExecuteResult:  # type: ignore[override]
        return ExecuteResult()

    def shutdown(self) -> None:  # type: ignore[override]
        pass


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (SaysFive, "provider 'bad': `capabilities` returned int, not Capabilities"),
        (Raises, "provider 'bad': `capabilities` raised KeyError: 'x'"),
        (SyncInit, "provider 'bad': `init` is not async"),
    ],
)
@pytest.mark.parametrize("registered", [True, False])
def test_provider_with_a_method_of_another_shape_is_refused_with_its_name(
    kind: type[ScriptedProvider],
    message: str,
    registered: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = kind([], name="bad")

    async def main() -> None:
        async with Engine(tmp_path, providers={} if registered else {"bad": bad}) as sdk:
            if registered:
                await sdk.register_provider("bad", bad)
            await sdk.run(pipeline({**node("plan"), "provider": "bad"}), session="s")

    with pytest.raises(AgentForgeError, match=message):
        run(main())
    assert caplog.records == []


def test_synchronous_execute_fails_the_attempt_with_what_to_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> RunResult:
        async with Engine(tmp_path, providers={"bad": SyncExecute([], name="bad")}) as sdk:
            return await sdk.run(
                pipeline({**node("plan"), "provider": "bad", "retry": {"max_attempts": 1}}), session="s"
            )

    result = run(main())
    assert (result.status, result.error_type) == ("failed", "provider_crashed")
    assert "bad: `execute` is not async" in (result.error or "")
    assert [record for record in caplog.records if record.exc_info] == []
