"""Everything that is shipped lints clean, and its prompts speak only of variables that exist."""

import re
from pathlib import Path

import pytest

from agentforge.adapters.host.project_files import FileSources
from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.resolve import available_pipelines, available_stages
from agentforge.model.diagnostic import render
from agentforge.model.plan import Plan
from agentforge.views.prompt import PROMPT_VARIABLES

from .world import linted

SOURCES = FileSources(Path(__file__).parent / "python-project", {})
STAGES = [found.name for found in available_stages(SOURCES)]
PIPELINES = [found.name for found in available_pipelines(SOURCES)]

# The names that users of agent-pipelines know, and the default pipeline.
KNOWN_STAGES = {
    "bead-polish",
    "bead-refinement",
    "bug-discovery",
    "bug-triage",
    "codex-work",
    "create-tasks",
    "critique-plan",
    "deep-analysis",
    "doc-updater",
    "elegance",
    "evaluate-ideas",
    "fresh-eyes",
    "idea-wizard",
    "implement-changes",
    "improve-plan",
    "ralph",
    "recommend-improvements",
    "refine-tasks",
    "research-plan",
    "respond-critique",
    "review-oversights",
    "synthesize-debate",
    "synthesize-plans",
    "test-scanner",
}
KNOWN_PIPELINES = {
    "loop",
    "bug-hunt",
    "docs-improve",
    "dual-analyze",
    "dueling-wizards",
    "ideate",
    "jeff-optimizer",
    "plan-debate",
    "plan-to-tasks",
    "queue-provider-tdd",
    "refine",
    "single-analyze",
    "v3-implement",
    "v3-refine",
    "v3-refine-dual",
}


def test_the_known_names_exist() -> None:
    assert set(STAGES) >= KNOWN_STAGES
    assert set(PIPELINES) >= KNOWN_PIPELINES


@pytest.mark.parametrize("name", STAGES)
def test_built_in_stage_lints_clean(name: str) -> None:
    found = linted(SOURCES, name, "stage", known_providers=["claude", "codex"])
    assert not found, render(found)


@pytest.mark.parametrize("name", PIPELINES)
def test_built_in_pipeline_lints_clean(name: str) -> None:
    found = linted(SOURCES, name, "pipeline", known_providers=["claude", "codex"])
    assert not found, render(found)


@pytest.mark.parametrize("name", STAGES)
def test_built_in_stage_has_a_description(name: str) -> None:
    (found,) = [stage for stage in available_stages(SOURCES) if stage.name == name]
    assert found.description


def prompts_of(plan: Plan) -> list[str]:
    stages = [stage for step in plan.steps for stage in step.stages]
    return [stage.prompt or Path(stage.prompt_path or "").read_text() for stage in stages]


@pytest.mark.parametrize("name", PIPELINES)
def test_prompts_of_built_in_pipelines_use_known_variables_only(name: str) -> None:
    for prompt in prompts_of(compile_pipeline(SOURCES, name, "x").plan):
        assert set(re.findall(r"\$\{(\w+)\}", prompt)) <= set(PROMPT_VARIABLES)


@pytest.mark.parametrize("name", STAGES)
def test_prompts_of_built_in_stages_ask_for_a_result(name: str) -> None:
    (folder,) = [found.path for found in available_stages(SOURCES) if found.name == name]
    prompt = (Path(folder) / "prompt.md").read_text()
    variables = set(re.findall(r"\$\{(\w+)\}", prompt))
    # Those that leave an artifact get the instructions of the engine, which ask for both.
    asked = "BRIEFING" if "\nartifact:" in (Path(folder) / "stage.yaml").read_text() else "RESULT"
    assert {asked, "CTX"} <= variables <= set(PROMPT_VARIABLES)
