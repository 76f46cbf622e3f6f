"""One name, several offers: code over the project's own, over a package's, over what is built in."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk.packages import install
from tests.sdk.projects import run

from agentforge.app.providers.offers import Origin
from agentforge.app.providers.readiness import ProviderInfo
from agentforge.model.errors import ProviderUnusable
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

ORIGINS: tuple[Origin, ...] = ("registered", "project", "entry point", "built in")
PACKAGE = "from agentforge.testing import ScriptedProvider\n\ndef make():\n    return ScriptedProvider([])\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield tmp_path / "site"
    sys.modules.pop("some_agents", None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def describe(project: Path, name: str, text: str = "program: cat\n") -> None:
    folder = project / ".agentforge" / "providers"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)


def engine(project: Path, **options: ScriptedProvider) -> Engine:
    return Engine(
        project, providers=options, environ={"PATH": "/usr/bin:/bin", "AGENTFORGE_TRUST_PROJECT": "1"}
    )


def listed(sdk: Engine) -> dict[str, ProviderInfo]:
    async def main() -> dict[str, ProviderInfo]:
        async with sdk:
            return {info.name: info for info in await sdk.providers()}

    return run(main())


@pytest.mark.parametrize("winner", ORIGINS)
def test_the_strongest_origin_that_offers_the_name_wins(
    project: Path, site: Path, winner: Origin, caplog: pytest.LogCaptureFixture
) -> None:
    offering = ORIGINS[ORIGINS.index(winner) :]
    if "project" in offering:
        describe(project, "codex")
    if "entry point" in offering:
        install(site, "some-agents", PACKAGE, {"codex": "make"})
    mine = {"codex": ScriptedProvider([says("x")])} if "registered" in offering else {}
    with caplog.at_level(logging.INFO):
        sdk = engine(project, **mine)
        assert sdk._registry.offer("codex").origin == winner
        assert listed(sdk)["codex"].origin == winner
    assert ("overrides the built-in one" in caplog.text) == (winner != "built in")
    assert ("some_agents" in sys.modules) == (winner == "entry point")


def test_a_description_that_is_wrong_is_named_with_its_place_and_breaks_no_other(project: Path) -> None:
    describe(project, "mine", "program: cat\nargumants: [x]\n")
    describe(project, "fine")
    found = listed(engine(project))
    assert (found["fine"].usable, found["fine"].origin) == (True, "project")
    assert found["fine"].place == ".agentforge/providers/fine.yaml"
    assert not found["mine"].usable
    assert found["mine"].problem.startswith(".agentforge/providers/mine.yaml:2:1: unknown key `argumants`")
    assert "did you mean `arguments`?" in found["mine"].fix

    async def use() -> None:
        async with engine(project) as sdk:
            await sdk.run({"nodes": [{"id": "a", "prompt": "x", "provider": "mine"}]}, session="s")

    with pytest.raises(ProviderUnusable, match="unknown key `argumants`"):
        run(use())
