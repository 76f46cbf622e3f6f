"""Which providers a run needs to begin: one of each stage's chain, and the sandbox that they ask for."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.adapters.fake_clis import put_cli
from tests.noting_sandbox import NotingSandbox
from tests.sdk.projects import engine, node, pipeline, run

from agentforge.adapters.providers.cli import CliAgent
from agentforge.adapters.providers.codex import CODEX
from agentforge.adapters.providers.command import CommandProvider
from agentforge.app.providers.readiness import examine
from agentforge.app.providers.registry import RunProviders
from agentforge.definition.compiler import Compiled
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import FailureKind
from agentforge.model.plan import ProviderChoice, SandboxChoice
from agentforge.ports.provider import Capabilities, ExecuteRequest, Exit, Provider
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

REQUEST = ExecuteRequest("p", "", {}, "/", {}, "/status", "/result")


def fine() -> ScriptedProvider:
    return ScriptedProvider([says("done")], name="fine")


def broken(why: str = "no key") -> ScriptedProvider:
    return ScriptedProvider([says("never")], name="broken", unusable=why)


def compiled(sdk: Engine, chain: list[str], sandbox: SandboxChoice | None = None) -> Compiled:
    found = sdk.compile(pipeline(node(provider=chain[0])), session="s")
    (stage,) = found.plan.nodes
    fallbacks = tuple(ProviderChoice(name, "") for name in chain[1:])
    changed = replace(stage, fallbacks=fallbacks, sandbox=sandbox)
    return replace(found, plan=replace(found.plan, nodes=(changed,)))


def ready(project: Path, providers: dict[str, Provider], chain: list[str], **options: Any) -> Engine:
    """An engine after the start of a run with that chain was checked."""
    sandbox = options.pop("sandbox", None)
    sdk = Engine(project, providers=providers, environ={"PATH": "/nowhere"}, **options)

    async def main() -> None:
        async with sdk:
            await sdk.validate_start(compiled(sdk, chain, sandbox))

    run(main())
    return sdk


@pytest.mark.parametrize("chain", [["broken", "fine"], ["fine", "broken"], ["broken", "fine", "broken"]])
def test_one_usable_provider_of_the_chain_is_enough(
    tmp_path: Path, chain: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    ready(tmp_path, {"fine": fine(), "broken": broken()}, chain)
    assert "provider broken is not usable: no key" in caplog.text


def test_a_chain_without_a_usable_provider_is_refused_with_the_reason_of_the_first(tmp_path: Path) -> None:
    providers: dict[str, Provider] = {"a": broken("no key for a"), "b": broken("no key for b")}
    with pytest.raises(ProviderUnusable, match="no key for a"):
        ready(tmp_path, providers, ["a", "b"])


def test_a_broken_provider_of_another_stage_is_not_excused(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, fine()) as sdk:
            two = pipeline(node("one"), node("two", provider="claude"))
            with pytest.raises(ProviderUnusable):
                await sdk.validate_start(sdk.compile(two, session="s"))

    run(main())


class TestABrokenProviderOfAChain:
    def test_unusable_provider_raises_the_reason_when_started(self, tmp_path: Path) -> None:
        sdk = ready(tmp_path, {"fine": fine(), "broken": broken()}, ["fine", "broken"])
        stand_in: Any = sdk._registry["broken"]
        with pytest.raises(ProviderUnusable, match="no key"):
            stand_in.command(REQUEST)
        with pytest.raises(ProviderUnusable, match="no key"):
            run(stand_in.execute(REQUEST))

    def test_unusable_provider_still_interprets_what_it_had_started(self, tmp_path: Path) -> None:
        class Elsewhere(CommandProvider):
            def validate(self) -> None:
                raise ProviderUnusable("uninstalled since")

        offered = {"fine": fine(), "program": Elsewhere(config={"run": "true"})}
        sdk = ready(tmp_path, offered, ["program", "fine"])
        stand_in: Any = sdk._registry["program"]
        ended = stand_in.interpret(Exit(0, None, 5, "done"))
        assert (ended.output, ended.failure) == ("done", None)
        assert stand_in.progress("words") == "words"

    def test_provider_that_cannot_be_created_fails_what_it_had_started(self, tmp_path: Path) -> None:
        async def main() -> Any:
            async with Engine(tmp_path, environ={"PATH": "/nowhere"}) as sdk:
                await sdk._registry.try_ready(["gone"])
                return sdk._registry["gone"]

        ended = run(main()).interpret(Exit(0, None, 5, "done"))
        assert ended.failure.kind is FailureKind.PROVIDER_MISSING
        assert "unknown provider 'gone'" in ended.failure.message

    def test_provider_works_again_once_it_initializes(self, tmp_path: Path) -> None:
        flaky = broken()

        async def main() -> None:
            async with Engine(tmp_path, providers={"flaky": flaky}, environ={}) as sdk:
                assert set(await sdk._registry.try_ready(["flaky"])) == {"flaky"}
                flaky._unusable = ""
                assert await sdk._registry.try_ready(["flaky"]) == {}
                assert sdk._registry["flaky"] is flaky

        run(main())


class Dangerous(CommandProvider):
    """A program that must not run unconfined."""

    def __init__(self) -> None:
        super().__init__({"PATH": "/bin"}, name="dangerous", config={"run": "true"})

    def capabilities(self) -> Capabilities:
        return Capabilities(requires_sandbox=True)


class TestSandboxes:
    def check(
        self,
        project: Path,
        provider: Provider,
        sandbox: SandboxChoice | None,
        fake: NotingSandbox | None = None,
        *,
        sandboxed: bool = False,
    ) -> None:
        async def main() -> None:
            async with Engine(project, providers={"it": provider}, environ={}) as sdk:
                plan = compiled(sdk, ["it"], sandbox).plan
                found = {"bwrap": fake} if fake else {}
                (
                    await examine(plan, RunProviders(sdk._registry, plan, {}), found, sandboxed=sandboxed)
                ).confirmed()

        run(main())

    @pytest.mark.parametrize("choice", [None, SandboxChoice()])
    def test_a_provider_that_requires_one_is_refused_without(
        self, tmp_path: Path, choice: SandboxChoice | None
    ) -> None:
        with pytest.raises(ProviderUnusable, match="'dangerous' must run in a sandbox") as caught:
            self.check(tmp_path, Dangerous(), choice)
        assert "sandbox: bwrap" in caught.value.hint

    def test_a_fully_isolated_process_needs_no_sandbox(self, tmp_path: Path) -> None:
        with pytest.raises(ProviderUnusable):
            self.check(tmp_path, Dangerous(), None)
        self.check(tmp_path, Dangerous(), None, sandboxed=True)

    def test_the_engine_passes_its_sandboxed_flag(self, tmp_path: Path) -> None:
        with pytest.raises(ProviderUnusable):
            ready(tmp_path, {"it": Dangerous()}, ["it"])
        ready(tmp_path, {"it": Dangerous()}, ["it"], sandboxed=True)

    def test_a_fallback_that_requires_one_is_refused_at_the_start_too(self, tmp_path: Path) -> None:
        with pytest.raises(ProviderUnusable, match="'dangerous' must run in a sandbox"):
            ready(tmp_path, {"fine": fine(), "it": Dangerous()}, ["fine", "it"])

    def test_a_fallback_that_may_still_initialize_is_refused_too(self, tmp_path: Path) -> None:
        """Another run of the same engine may bring it up."""

        class NotYet(Dangerous):
            def validate(self) -> None:
                raise ProviderUnusable("no key yet")

        with pytest.raises(ProviderUnusable, match="'dangerous' must run in a sandbox"):
            ready(tmp_path, {"fine": fine(), "it": NotYet()}, ["fine", "it"])
        program = CommandProvider({"PATH": "/bin"}, name="program", config={"run": "true"})

        async def main() -> None:
            providers: dict[str, Provider] = {"program": program, "broken": broken()}
            async with Engine(tmp_path, providers=providers, environ={}) as sdk:
                plan = compiled(sdk, ["program", "broken"], SandboxChoice("bwrap")).plan
                with pytest.raises(ProviderUnusable, match="runs inside the engine"):
                    (
                        await examine(plan, RunProviders(sdk._registry, plan, {}), {"bwrap": NotingSandbox()})
                    ).confirmed()

        run(main())

    def test_the_sandbox_of_a_stage_is_probed_when_the_run_starts(self, tmp_path: Path) -> None:
        choice, there = SandboxChoice("bwrap", network=False), NotingSandbox()
        self.check(tmp_path, Dangerous(), choice, there)
        assert there.probed == [choice]
        with pytest.raises(ProviderUnusable, match="bwrap can't start"):
            self.check(tmp_path, Dangerous(), choice, NotingSandbox("bwrap can't start"))

    @pytest.mark.parametrize(
        ("permissions", "refused"),
        [
            (None, False),
            (["--sandbox", "workspace-write"], True),
            ([], True),
            (["--sandbox", "danger-full-access"], False),
            (["-c", "sandbox_mode=danger-full-access"], False),
        ],
    )
    def test_an_agent_whose_own_sandbox_cannot_work_there_is_refused(
        self, tmp_path: Path, permissions: list[str] | None, refused: bool
    ) -> None:
        put_cli(tmp_path / "bin", "codex")
        environ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
        config = {} if permissions is None else {"permissions": permissions}
        agent, choice = CliAgent(CODEX, environ, config=config), SandboxChoice("bwrap")
        self.check(tmp_path, agent, choice, NotingSandbox())
        self.check(tmp_path, agent, None)
        with pytest.raises(ProviderUnusable, match="creates its own sandbox") if refused else nullcontext():
            self.check(tmp_path, agent, choice, NotingSandbox(nesting_problem="root can't"))

    @pytest.mark.parametrize(("name", "warned"), [("claude", True), ("lint", False)])
    def test_an_agent_without_the_network_is_warned_about(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, warned: bool
    ) -> None:
        provider = CommandProvider({"PATH": "/bin"}, name=name, config={"run": "true"})
        self.check(tmp_path, provider, SandboxChoice("bwrap"), NotingSandbox())
        assert not caplog.text
        self.check(tmp_path, provider, SandboxChoice("bwrap", network=False), NotingSandbox())
        assert ("claude needs the network to reach its model" in caplog.text) is warned

    def test_a_provider_inside_the_engine_cannot_be_confined(self, tmp_path: Path) -> None:
        with pytest.raises(ProviderUnusable, match="runs inside the engine"):
            self.check(tmp_path, fine(), SandboxChoice("bwrap"), NotingSandbox())

    def test_a_judge_that_requires_one_is_refused(self, tmp_path: Path) -> None:
        async def main() -> None:
            async with Engine(tmp_path, providers={"it": Dangerous(), "fine": fine()}, environ={}) as sdk:
                judged = pipeline(node(provider="fine", termination={"type": "judgment", "max": 3}))
                plan = replace(sdk.compile(judged, session="s").plan, judge=ProviderChoice("it", ""))
                (await examine(plan, RunProviders(sdk._registry, plan, {}), {}, sandboxed=True)).confirmed()
                with pytest.raises(ProviderUnusable, match="which it judges, has none"):
                    (await examine(plan, RunProviders(sdk._registry, plan, {}), {})).confirmed()

        run(main())


def test_a_run_falls_back_to_the_next_of_its_chain_if_the_first_is_not_usable(tmp_path: Path) -> None:
    good = fine()

    async def main() -> None:
        providers = {"fine": good, "broken": broken()}
        async with Engine(tmp_path, providers=providers, environ={"PATH": "/nowhere"}) as sdk:
            result = await sdk.run(pipeline(node(provider=["broken", "claude", "fine"], runs=2)), session="s")
            assert result.completed

    run(main())
    assert len(good.calls) == 2
