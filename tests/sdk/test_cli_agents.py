"""Runs with the providers claude and codex, on stand-ins for their CLIs."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.fake_clis import WRITE, put_cli, shown
from tests.sdk.projects import ENVIRON, engine, iteration_dir, node, pipeline, run

from agentforge.model.errors import ProviderUnusable
from agentforge.views.results import RunResult

ONCE = {"max_attempts": 1}


def go(project: Path, stage: dict[str, Any], **environ: str) -> RunResult:
    path = f"{project / 'bin'}:{ENVIRON['PATH']}"

    async def main() -> RunResult:
        async with engine(project, environ={"PATH": path, **environ}) as sdk:
            return await sdk.run(pipeline(stage), session="s")

    return run(main())


@pytest.mark.parametrize(
    ("provider", "model"), [("claude", "opus"), ("codex", "gpt-5.5"), ("claude-code", "opus")]
)
def test_stage_runs_the_cli_with_its_default_model(tmp_path: Path, provider: str, model: str) -> None:
    program = "codex" if provider == "codex" else "claude"
    put_cli(tmp_path / "bin", program)
    assert go(tmp_path, node(provider=provider)).completed
    called = shown((iteration_dir(tmp_path) / "output.md").read_text())
    assert called["argv"][called["argv"].index("--model") + 1] == model
    assert called["stdin"].startswith("do it")


def test_missing_cli_is_refused_before_the_run_starts(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnusable, match=r"^Claude CLI not found. Install with: npm install -g @anth"):
        go(tmp_path, node(provider="claude"))
    assert not (tmp_path / ".claude").exists()


def test_cli_that_goes_missing_during_a_run_fails_it_at_once(tmp_path: Path) -> None:
    put_cli(tmp_path / "bin", "codex", f"{WRITE}os.unlink(__file__)\n")
    result = go(tmp_path, node(provider="codex", runs=2, retry={"max_attempts": 5}))
    assert (result.error_type, result.error) == (
        "provider_missing",
        "Codex CLI not found. Install with: npm install -g @openai/codex",
    )


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ({}, r"ended after the time limit of provider 'codex' \(\d\.\d s in all\)"),
        ({"timeout": 10}, r"ended after the time limit of provider 'codex' \(\d+\.\d s in all\)"),
        ({"timeout": 0.1}, r"ended after 0\.1 s"),
    ],
)
def test_codex_timeout_and_the_stage_s_the_tighter_one_ends_the_agent(
    tmp_path: Path, stage: dict[str, Any], says: str
) -> None:
    put_cli(tmp_path / "bin", "codex", "import time\ntime.sleep(300)\n")
    result = go(tmp_path, node(provider="codex", retry=ONCE, **stage), CODEX_TIMEOUT="0.3")
    assert result.error_type == "iteration_timeout"
    assert re.search(f"{says}$", str(result.error))
