"""`network: local`: nothing elsewhere is called, and no resume loosens it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, engine, iteration_dir, node, pipeline, run, run_dir, types

from agentforge.app.providers.local_network import remote_calls
from agentforge.definition.local_network import as_local
from agentforge.model.errors import InvalidRequest, ProviderUnusable
from agentforge.model.plan import Overrides, Plan
from agentforge.model.status import RunStatus
from agentforge.provider import Endpoints
from agentforge.testing import ScriptedProvider
from agentforge.testing.model_server import Call, ModelServer, Script, Turn
from agentforge.testing.scripted_provider import says

WORKS = 'printf \'{"summary": "done"}\' > "$AGENTFORGE_RESULT"'


def api(address: str, **more: Any) -> dict[str, Any]:
    return node(provider={"type": "api", "model": "m", "base_url": address, **more})


def command(run: str = WORKS, **changes: Any) -> dict[str, Any]:
    return node(provider={"type": "command", "run": run}, retry={"max_attempts": 1}, **changes)


def refusal(project: Path, what: dict[str, Any], **environ: str) -> str:
    """Why the run can't start; nothing of it exists then."""

    async def main() -> str:
        async with engine(project, environ={**ENVIRON, **environ}) as sdk:
            with pytest.raises(ProviderUnusable) as refused:
                await sdk.run(what, session="s", local=True)
            assert all(error.hint for error in refused.value.others)
            return str(refused.value)

    said = run(main())
    assert not run_dir(project).exists()
    return said


class Elsewhere(ScriptedProvider):
    def endpoints(self, model: str, config: dict[str, Any]) -> Endpoints:
        return Endpoints(("https://api.example.com/v1",))


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://203.0.113.7:11434/v1", "203.0.113.7 is not on this machine"),
        ("http://[2001:db8::1]:11434/v1", "2001:db8::1 is not on this machine"),
    ],
)
def test_an_address_elsewhere_is_refused_before_the_run(tmp_path: Path, address: str, problem: str) -> None:
    said = refusal(tmp_path, pipeline(api(address)))
    assert f"stage 'plan': the run has `network: local`, but provider api calls {address}: {problem}" in said


def test_a_provider_of_several_stages_is_refused_once(tmp_path: Path) -> None:
    both = pipeline(node("plan"), node("build"))
    plan = as_local(engine(tmp_path).compile(both, session="s").plan)
    ((_, error),) = remote_calls(plan, lambda _: None, {})
    assert error.message.startswith("stages 'plan', 'build': the run has `network: local`, but")


def test_a_public_name_is_refused_by_what_it_resolves_to(tmp_path: Path) -> None:
    asked: list[str] = []

    def resolve(host: str) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1", "203.0.113.7"]

    plan = as_local(engine(tmp_path).compile(pipeline(), session="s").plan)
    ((name, error),) = remote_calls(plan, lambda _: Elsewhere([says("x")]), {}, resolve)
    assert name == "scripted"
    assert "api.example.com is 203.0.113.7, which is not on this machine" in error.message
    assert asked == ["api.example.com"]


def test_a_proxy_variable_is_refused(tmp_path: Path) -> None:
    claude = pipeline(node(provider={"type": "claude"}))
    here = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    said = refusal(tmp_path, claude, HTTPS_PROXY="http://203.0.113.7:3128", **here)
    assert (
        "HTTPS_PROXY sends requests to 127.0.0.1 through a proxy: 203.0.113.7 is not on this machine" in said
    )
    assert "provider claude is not local: it calls the service of its maker" in refusal(tmp_path, claude)


def test_providers_of_others_say_what_they_call_or_are_refused(tmp_path: Path) -> None:
    assert "provider scripted doesn't say which servers it calls" in refusal(tmp_path, pipeline())


def test_hooks_and_notifications_elsewhere_are_refused(tmp_path: Path) -> None:
    hooks = {"stage_end": [{"action": "webhook", "url": "https://203.0.113.7/hook"}]}
    notify = [{"on": "failed", "url": "https://203.0.113.8/n"}]
    own = "https://203.0.113.9/mine"
    said = refusal(tmp_path, pipeline(command(), hooks=hooks, notify=notify), AGENTFORGE_NOTIFY=own)
    for owner, address in (
        ("hook", "203.0.113.7"),
        ("notification", "203.0.113.8"),
        ("AGENTFORGE_", "203.0.113.9"),
    ):
        assert any(line.startswith(owner) and address in line for line in said.splitlines()), said


def test_a_command_runs_and_is_told_and_what_needs_the_network_is_left_out_and_named(tmp_path: Path) -> None:
    checks = [{"name": "audit", "run": "exit 1", "needs": "network"}, {"name": "test", "run": "true"}]
    tell = {"id": "tell", "action": "webhook", "url": "https://203.0.113.7/", "needs": "network"}
    upload = {"id": "upload", "action": "script", "script": "touch uploaded", "needs": "network"}
    what = pipeline(
        command(f'echo "$AGENTFORGE_NETWORK" > told; {WORKS}', checks=checks),
        network="local",
        hooks={"stage_end": [tell, upload]},
    )

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            compiled = sdk.compile(what, session="s")
            warnings = (await sdk.readiness(compiled)).warnings
            for named in (
                "check 'audit' of stage 'plan' is not run",
                "'tell' is not called",
                "'upload' is not",
            ):
                assert any(named in text for text in warnings), named
            preview = "\n".join(await sdk.dry_run(compiled))
            assert "- Network: local" in preview
            assert "- Check: audit is not run: it needs the network" in preview
            assert "- tell is not called: it needs the network" in preview
            ended = await sdk.start(compiled)
            assert ended.status is RunStatus.COMPLETED

    run(main())
    assert (tmp_path / "told").read_text() == "local\n"
    log = (run_dir(tmp_path) / "events.jsonl").read_text()
    started = [json.loads(line) for line in log.splitlines() if '"check_start"' in line]
    assert "audit" not in json.dumps(started)
    assert "hook_start" not in types(tmp_path)


def local_plan(change: Callable[[Any], Any], tmp_path: Path) -> Plan:
    async def main() -> Plan:
        async with engine(tmp_path) as sdk:
            await change(sdk)
            return sdk.status("s").plan

    return run(main())


FAILS = "nodes: [{id: plan, prompt: x, retry: {max_attempts: 1}, provider: {type: command, run: exit 1}}]\n"


@pytest.mark.parametrize("recompile", [False, True])
def test_a_resume_can_ask_for_it_and_never_loosens_it(tmp_path: Path, *, recompile: bool) -> None:
    (tmp_path / "p.yaml").write_text(FAILS)

    async def start(sdk: Any) -> None:
        await sdk.run("p.yaml", session="s")

    async def tighten(sdk: Any) -> None:
        await sdk.resume("s", local=True, recompile=recompile)

    async def again(sdk: Any) -> None:
        await sdk.resume("s", recompile=True)
        await sdk.resume("s", recompile=sdk.compile("p.yaml", session="s", overrides=Overrides()))
        await sdk.resume("s", local=True)

    assert not local_plan(start, tmp_path).is_local
    assert local_plan(tighten, tmp_path).is_local
    assert (run_dir(tmp_path) / "pipeline.yaml").read_text() == FAILS
    (tmp_path / "p.yaml").write_text("network: any\n" + FAILS)
    assert local_plan(again, tmp_path).is_local
    assert types(tmp_path).count("plan_changed") == 3


def test_a_run_that_would_call_a_server_elsewhere_is_not_resumed_as_local(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(FAILS)

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.run("p.yaml", session="s")
            (tmp_path / "p.yaml").write_text(FAILS.replace("{type: command, run: exit 1}", "scripted"))
            known = types(tmp_path)
            with pytest.raises(ProviderUnusable, match="network: local"):
                await sdk.resume("s", local=True, recompile=True)
            assert types(tmp_path) == known

    run(main())


def test_settings_of_the_user_count_for_runs_that_were_compiled_before(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(FAILS)
    environ = {**ENVIRON, "XDG_CONFIG_HOME": str(tmp_path / "config")}

    async def main() -> None:
        async with engine(tmp_path, environ=environ) as sdk:
            await sdk.run("p.yaml", session="s")
        (tmp_path / "config/agentforge").mkdir(parents=True)
        (tmp_path / "config/agentforge/settings.yaml").write_text("network: local\n")
        async with engine(tmp_path, environ=environ) as sdk:
            known = types(tmp_path)
            with pytest.raises(InvalidRequest, match="may call any server") as refused:
                await sdk.resume("s")
            assert refused.value.hint == "`agentforge resume s --local` continues it on this machine only"
            assert types(tmp_path) == known
            await sdk.resume("s", local=True)
            await sdk.resume("s")
            assert sdk.status("s").plan.is_local

    run(main())


def test_a_model_on_this_machine_works_beside_a_proxy(tmp_path: Path) -> None:
    done = Script((Turn("", (Call("complete", {"summary": "hello", "decision": "stop"}),)),))
    proxy = {"HTTP_PROXY": "http://203.0.113.7:1", "ALL_PROXY": "http://203.0.113.7:1"}

    async def main() -> None:
        address = server.url(done, "local").replace("127.0.0.1", "localhost") + "/v1"
        what = pipeline(api(address, model="ollama:m"), network="local")
        async with engine(tmp_path, environ={**ENVIRON, **proxy}) as sdk:
            ended = await sdk.run(what, session="s")
            assert ended.status is RunStatus.COMPLETED, ended

    with ModelServer() as server:
        run(main())


class Moving(ScriptedProvider):
    """Names another server from the second time on."""

    asked = 0

    def endpoints(self, model: str, config: dict[str, Any]) -> Endpoints:
        self.asked += 1
        return Endpoints(("http://127.0.0.1:9" if self.asked == 1 else "http://203.0.113.7",))


def test_each_attempt_is_judged_again(tmp_path: Path) -> None:
    provider = Moving([says("done")])
    what = pipeline(node(retry={"max_attempts": 1}), network="local")
    ended = run(engine(tmp_path, provider).run(what, session="s"))
    assert ended.status is not RunStatus.COMPLETED
    assert provider.asked >= 2
    error = json.loads((iteration_dir(tmp_path) / "error.json").read_text())
    assert "203.0.113.7 is not on this machine" in json.dumps(error)
