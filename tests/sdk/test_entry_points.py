"""Providers of installed packages: found by metadata, loaded on use; broken ones don't affect others."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk.packages import install
from tests.sdk.projects import ENVIRON, engine, node, pipeline, run

from agentforge.app.providers.readiness import ProviderInfo
from agentforge.model.errors import ProviderUnusable, UnknownProvider
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

MODULES = ("fine_agents", "bad_agents", "other_agents")

FINE = """
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

made = []

class Agent(ScriptedProvider):
    def __init__(self, environ):
        super().__init__([says(f"hello {environ['WHO']}")], name="agent")
        made.append(self)

def plain():
    return ScriptedProvider([says("plain")], name="plain")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with packages, first on the path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for module in MODULES:
        sys.modules.pop(module, None)


def listed(project: Path) -> dict[str, ProviderInfo]:
    async def main() -> dict[str, ProviderInfo]:
        async with engine(project, environ={"PATH": "/nowhere"}) as sdk:
            return {info.name: info for info in await sdk.providers()}

    return run(main())


def test_a_stage_names_a_provider_of_an_installed_package(site: Path, tmp_path: Path) -> None:
    install(site, "fine-agents", FINE, {"agent": "Agent", "plain": "plain"})
    with SyncEngine(tmp_path, environ={**ENVIRON, "WHO": "you"}) as sdk:
        result = sdk.run(pipeline(node("a", provider="agent"), node("b", provider="plain")), session="s")
        assert result.completed
        outputs = [
            (Path(result.run_dir) / f"stage-0{place}/iterations/001/output.md").read_text()
            for place in ("0-a", "1-b")
        ]
    assert [output.strip() for output in outputs] == ["hello you", "plain"]
    (made,) = sys.modules["fine_agents"].made
    assert made.lifecycle == ["init", "validate", "shutdown"]


def test_packages_are_known_to_the_compiler_without_being_loaded(site: Path, tmp_path: Path) -> None:
    install(site, "bad-agents", "raise RuntimeError('loaded')", {"late": "Agent"})
    with SyncEngine(tmp_path, environ=ENVIRON) as sdk:
        assert "late" in sdk.engine._registry.names
        assert sdk.engine.compile(pipeline(node(provider="late")), session="s").warnings == ()
    assert "bad_agents" not in sys.modules


BROKEN = {
    "a syntax error": ("def (", "Agent", "SyntaxError: invalid syntax"),
    "a missing import": ("import no_such_thing", "Agent", "No module named 'no_such_thing'"),
    "a missing name": ("x = 1", "Agent", "AttributeError: module 'bad_agents' has no"),
    "a program that ends": ("import sys; sys.exit(3)", "Agent", "SystemExit: 3"),
    "no callable": ("Agent = 7", "Agent", "`bad_agents:Agent` must be a class or a function"),
    "a maker that fails": ("def Agent(): raise KeyError('KEY')", "Agent", "KeyError: 'KEY'"),
    "a maker that wants more": ("def Agent(key): pass", "Agent", "missing 1 required positional argument"),
    "no provider": ("class Agent:\n    name = 'x'", "Agent", "has no `init`, `execute`, `shutdown`"),
    "a specific reason": (
        "from agentforge.model.errors import ProviderUnusable\n"
        "def Agent(): raise ProviderUnusable('no key', hint='set MY_KEY')",
        "Agent",
        "no key",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_package_is_named_with_the_cause_and_breaks_no_other(
    site: Path, tmp_path: Path, how: str
) -> None:
    source, value, cause = BROKEN[how]
    install(site, "bad-agents", source, {"bad": value})
    install(site, "fine-agents", FINE, {"plain": "plain"})
    with SyncEngine(tmp_path, environ=ENVIRON) as sdk:
        assert sdk.run(pipeline(node(provider="plain")), session="fine").completed
        with pytest.raises(ProviderUnusable) as caught:
            sdk.run(pipeline(node(provider="bad")), session="s")
        assert [row.session for row in sdk.engine.list()] == ["fine"]
    assert caught.value.message.startswith("provider 'bad' of bad-agents 1.2 can't be loaded: ")
    assert cause in caught.value.message
    expected = "set MY_KEY" if how == "a specific reason" else "uninstall bad-agents"
    assert expected in caught.value.hint


def test_two_packages_that_offer_the_same_name_are_both_named(site: Path, tmp_path: Path) -> None:
    install(site, "fine-agents", FINE, {"plain": "plain"})
    install(site, "other-agents", FINE, {"plain": "plain"})
    with (
        SyncEngine(tmp_path, environ=ENVIRON) as sdk,
        pytest.raises(ProviderUnusable, match=r"offered by several packages: .*other-agents 1\.2"),
    ):
        sdk.run(pipeline(node(provider="plain")), session="s")


def test_a_package_overrides_a_built_in_provider_with_a_warning(
    site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(site, "fine-agents", FINE, {"codex": "plain"})
    with caplog.at_level(logging.WARNING), SyncEngine(tmp_path, environ=ENVIRON) as sdk:
        assert sdk.run(pipeline(node(provider="codex")), session="s").completed
    assert "provider codex comes from fine-agents 1.2, which overrides the built-in one" in caplog.text


def test_provider_registered_in_code_overrides_a_package_without_loading_it(
    site: Path, tmp_path: Path
) -> None:
    install(site, "bad-agents", "raise RuntimeError", {"scripted": "Agent"})
    mine = ScriptedProvider([says("mine")])
    with SyncEngine(tmp_path, providers={"scripted": mine}, environ=ENVIRON) as sdk:
        assert sdk.run(pipeline(), session="s").completed
    assert len(mine.calls) == 1
    assert "bad_agents" not in sys.modules


def test_an_unknown_name_is_refused_with_the_closest_known_one(site: Path, tmp_path: Path) -> None:
    install(site, "fine-agents", FINE, {"remote-agent": "Agent"})
    with SyncEngine(tmp_path, environ=ENVIRON) as sdk, pytest.raises(UnknownProvider) as caught:
        sdk.engine._registry["remot-agent"]
    assert caught.value.hint.startswith("did you mean `remote-agent`? available providers: ")
    assert "claude" in caught.value.hint


def test_the_list_shows_the_origin_of_each_and_why_one_is_not_usable(site: Path, tmp_path: Path) -> None:
    install(site, "bad-agents", "1 / 0", {"bad": "Agent"})
    install(site, "fine-agents", FINE, {"plain": "plain"})
    found = listed(tmp_path)
    assert (found["plain"].origin, found["plain"].place, found["plain"].usable) == (
        "entry point",
        "fine-agents 1.2",
        True,
    )
    assert found["plain"].capabilities is not None
    assert (found["bad"].usable, found["bad"].capabilities) == (False, None)
    assert "ZeroDivisionError: division by zero" in found["bad"].problem
    assert found["scripted"].origin == "registered"
    assert (found["mock"].origin, found["mock"].usable) == ("built in", True)
    claude = found["claude"]
    assert (claude.usable, bool(claude.problem), bool(claude.capabilities)) == (False, True, True)
