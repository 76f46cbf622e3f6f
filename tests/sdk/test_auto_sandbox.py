"""`sandbox: auto`: chosen when a run is started, and never weakened later."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, engine, node, pipeline, run, types

from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice

WORKS = "#!/bin/sh\ntrue\n"
BROKEN = "#!/bin/sh\necho 'no namespaces here' >&2\nexit 1\n"


def machine(folder: Path, bwrap: str) -> dict[str, str]:
    """An environment whose bwrap is this script. It never starts an agent."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "bwrap").write_text(bwrap)
    (tools / "bwrap").chmod(0o755)
    return {**ENVIRON, "PATH": f"{tools}:{ENVIRON['PATH']}"}


def command(**changes: Any) -> dict[str, Any]:
    provider = {"type": "command", "run": "exit 1"}
    return node(provider=provider, sandbox="auto", retry={"max_attempts": 1}, **changes)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.mark.parametrize(
    ("bwrap", "provider", "expected"),
    [
        (WORKS, None, SandboxChoice("bwrap", auto=True)),
        (BROKEN, None, SandboxChoice("none", auto=True)),
        (WORKS, "scripted", SandboxChoice("none", auto=True)),
    ],
)
def test_the_plan_has_what_works_here(
    tmp_path: Path, project: Path, bwrap: str, provider: str | None, expected: SandboxChoice
) -> None:
    written = command() if provider is None else node(provider=provider, sandbox="auto")

    async def shown() -> tuple[str, list[str]]:
        async with engine(project, environ=machine(tmp_path, bwrap)) as sdk:
            compiled = sdk.compile(pipeline(written), session="s")
            assert compiled.plan.stages[0].sandbox == expected
            return sdk.agents(compiled), list(await sdk.dry_run(compiled))

    line, preview = run(shown())
    kind = expected.type
    assert line.endswith(", bwrap" if kind == "bwrap" else ", no sandbox")
    assert f"- Sandbox: auto ({kind}{'), with network' if kind == 'bwrap' else ')'}" in preview
    warned = [text for text in preview if "agents run without a sandbox" in text]
    assert len(warned) == (bwrap == BROKEN)
    assert all("no namespaces here" in text for text in warned)


def test_without_bwrap_the_run_starts_and_says_so_once(
    tmp_path: Path, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with engine(project, environ=machine(tmp_path, BROKEN)) as sdk:
            with caplog.at_level(logging.WARNING):
                await sdk.run(pipeline(command(), command(id="other")), session="s")
                await sdk.resume("s")

    run(main())
    assert caplog.text.count("agents run without a sandbox") == 1
    assert "iteration_start" in types(project)


def test_a_run_that_was_started_with_bwrap_is_not_resumed_without_it(tmp_path: Path, project: Path) -> None:
    (project / "p.yaml").write_text(
        "nodes: [{id: plan, prompt: x, sandbox: auto, retry: {max_attempts: 1},"
        " provider: {type: command, run: exit 1}}]\n"
    )
    working = machine(tmp_path, WORKS)

    async def main() -> None:
        async with engine(project, environ=working) as sdk:
            await sdk.run("p.yaml", session="s")
        known = types(project)
        async with engine(project, environ=machine(tmp_path, BROKEN)) as sdk:
            assert sdk.compile("p.yaml").plan.stages[0].sandbox == SandboxChoice("none", auto=True)
            for recompile in (False, True, sdk.compile("p.yaml", session="s")):
                with pytest.raises(ProviderUnusable, match="bwrap doesn't work here: no namespaces here"):
                    await sdk.resume("s", recompile=recompile)
        assert types(project) == known

    run(main())
