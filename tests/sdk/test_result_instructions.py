"""A prompt for an agent's CLI that doesn't ask for the result is extended, so that no attempt is wasted."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, iteration_dir, node, pipeline, run

from agentforge.sdk.engine import Engine
from agentforge.views.results import RunResult

# An agent that does what its prompt says: it writes a result only if it is told where.
AGENT = """#!/bin/sh
cat > asked
target=$(sed -n 's/.*to the file \\(.*result.json\\), for example:$/\\1/p' asked)
[ -z "$target" ] || echo '{"summary": "done"}' > "$target"
"""


def go(project: Path, stage: dict[str, Any], **more: Any) -> RunResult:
    (project / "agent").write_text(AGENT)
    (project / "agent").chmod(0o755)
    definition = pipeline({**stage, "retry": {"max_attempts": 1}}, **more)

    async def main() -> RunResult:
        async with Engine(project, environ=ENVIRON) as sdk:
            return await sdk.run(definition, session="s")

    return run(main())


CLI = {"type": "cli", "program": "./agent"}


def test_agent_whose_prompt_does_not_name_the_result_is_asked_for_it(tmp_path: Path) -> None:
    assert go(tmp_path, node(provider=CLI)).completed
    prompt = (iteration_dir(tmp_path) / "prompt.md").read_text()
    assert prompt.startswith("do it\n\n---\n")
    assert f"to the file {iteration_dir(tmp_path)}/result.json, for example:" in prompt
    assert (tmp_path / "asked").read_text() == prompt


@pytest.mark.parametrize("variable", ["RESULT", "STATUS"])
def test_prompt_that_names_the_result_is_left_alone(tmp_path: Path, variable: str) -> None:
    prompt = f"Do it, then write to ${{{variable}}}."
    assert not go(tmp_path, node(provider=CLI, prompt=prompt)).completed
    assert (
        tmp_path / "asked"
    ).read_text() == f"Do it, then write to {iteration_dir(tmp_path)}/{variable.lower()}.json."


OFF: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "stage": ({"result_instructions": "off"}, {}),
    "pipeline": ({}, {"result_instructions": "off"}),
    "stage wins": ({"result_instructions": False}, {"result_instructions": "on"}),
}


@pytest.mark.parametrize(("stage", "more"), OFF.values(), ids=OFF)
def test_result_instructions_can_be_switched_off(
    tmp_path: Path, stage: dict[str, Any], more: dict[str, Any]
) -> None:
    result = go(tmp_path, node(provider=CLI, **stage), **more)
    assert result.error_type == "result_missing"
    assert "write a JSON object to ${RESULT}" in str(result.error)
    assert (tmp_path / "asked").read_text() == "do it"


def test_command_is_not_asked(tmp_path: Path) -> None:
    script = 'cat > asked; echo \'{"summary": "x"}\' > "$AGENTFORGE_RESULT"'
    assert go(tmp_path, node(provider={"type": "command", "run": script})).completed
    assert (tmp_path / "asked").read_text() == "do it"


def test_dry_run_says_that_the_prompt_is_extended(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with Engine(tmp_path, environ=ENVIRON) as sdk:
            stages = (node("a", provider="claude"), node("b", provider="claude", prompt="${RESULT}"))
            return list(
                await sdk.dry_run(sdk.compile(json.loads(json.dumps(pipeline(*stages))), session="s"))
            )

    assert len([line for line in run(main()) if line.startswith("- Result: a paragraph that asks")]) == 1
