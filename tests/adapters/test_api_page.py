"""docs/providers-api.md is accurate: its examples run, its tables list the existing settings."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.code_blocks import code_blocks
from tests.runtime.agents import ENVIRON
from tests.sdk.projects import iteration_dir, run

from agentforge.adapters.providers.api import ApiConfig
from agentforge.sdk.engine import Engine
from agentforge.testing.model_server import Call, ModelServer, Script, Turn
from agentforge.tool_loop.task import DEFAULT_ALLOWED, LOCAL, TOOLS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "providers-api.md").read_text()
EXAMPLES: list[dict[str, Any]] = [
    yaml.safe_load(block.text) for block in code_blocks("docs/providers-api.md", "yaml")
]
FINDINGS = {"verdict": "pass", "findings": ["none"]}
DONE = Script((Turn("", (Call("complete", {"summary": "done", "result": FINDINGS}),)),))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["name"]))
@pytest.mark.usefixtures("warm_tool_loop")
def test_example_runs(example: dict[str, Any], tmp_path: Path) -> None:
    """As it is written, only at another address."""
    provider = example["nodes"][0]["provider"]
    with ModelServer() as server:
        url = server.url(DONE, "page")
        local = provider["model"].startswith("ollama:")
        provider["base_url"] = f"{url}/v1" if local else url

        async def main() -> bool:
            async with Engine(tmp_path, environ={**ENVIRON, "ANTHROPIC_API_KEY": "a-test-key"}) as engine:
                return (await engine.run(example, session="s")).completed

        assert run(asyncio.wait_for(main(), 60), 60)
        assert server.requests("page")[0].model == provider["model"].partition(":")[2]
    if "schema" in provider:
        name = example["nodes"][0]["id"]
        artifact = iteration_dir(tmp_path, stage=f"stage-00-{name}") / "artifact.json"
        assert json.loads(artifact.read_text()) == FINDINGS


def test_page_names_every_setting_tool_and_server() -> None:
    settings = {field.encode_name for field in msgspec.structs.fields(ApiConfig)} - {"model"}
    table = PAGE.partition("## Settings")[2].partition("##")[0]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == settings
    for tool in TOOLS:
        assert f"`{tool}`" in PAGE
    for name, server in LOCAL.items():
        assert f"`{name}:NAME` | {server.base_url}" in PAGE


def test_page_names_every_program_that_is_allowed_by_default() -> None:
    for entry in DEFAULT_ALLOWED:
        program = entry.split()[0].replace("python3", "python")
        last = entry.split()[-1]
        assert re.search(rf"`{program}[^`]*`", PAGE), entry
        assert last in PAGE, entry
