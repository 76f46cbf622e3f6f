"""The definition of the loop: what it allows, and how one adds to it."""

import re
from pathlib import Path

import pytest
from tests.code_blocks import ROOT
from tests.loop.story import STAGES, Story

from agentforge import Definitions, copy_pipeline
from agentforge.adapters.host.project_files import FileSources
from agentforge.definition.compiler import compile_pipeline
from agentforge.model.plan import Plan, StageNode
from agentforge.testing.scripted_provider import says

ALLOWED = {
    "planner": {"executor"},
    "executor": {"verifier", "executor"},
    "verifier": {"reviewer", "executor"},
    "reviewer": {"", "planner"},
}
"""Where each stage can lead; empty: to the end. Repeating a stage without leaving it is a retry."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_pipeline(FileSources(Path(__file__).parent / "no-project", {}), "loop", "x").plan


@pytest.mark.requirement("FR-001", "FR-002", "FR-017", "FR-022")
def test_no_other_transitions_are_possible(plan: Plan) -> None:
    ids = [node.id for node in plan.nodes]
    assert tuple(ids) == STAGES
    for node, following in zip(plan.nodes, [*ids[1:], ""], strict=True):
        assert isinstance(node, StageNode)
        routed = {route.verdict: route.to for route in node.routes}
        assert {routed.get("pass", following), *routed.values()} == ALLOWED[node.id]
    assert plan.pipeline.require == STAGES


@pytest.mark.requirement("FR-032", "FR-035", "FR-036", "FR-063", "FR-064")
def test_limits_are_those_of_its_documentation(plan: Plan) -> None:
    stages = {node.id: node for node in plan.nodes if isinstance(node, StageNode)}
    assert [node.timeout for node in stages.values()] == [120, 300, 180, 120]
    for node in stages.values():
        assert node.retry is not None
        assert (node.retry.max_attempts, node.retry.stage) == (4, 2)
    limits = plan.pipeline.limits
    assert limits is not None
    assert (limits.cycles, limits.no_progress, limits.cluster) == (3, 10, 10)
    assert re.search(r"^defaults:\n  timeout: 300$", text("loop.yaml"), re.MULTILINE)


def text(name: str) -> str:
    return (ROOT / "src/agentforge/builtin/pipelines" / name).read_text()


@pytest.mark.requirement("NFR-011", "NFR-012", "NFR-013")
def test_a_fifth_stage_is_added_as_documented(tmp_path: Path) -> None:
    page = (ROOT / "docs/loop.md").read_text()
    prompt, node = re.findall(r"^   ```text\n(.*?)^   ```", page, re.DOTALL | re.MULTILINE)
    copy_pipeline(tmp_path, "loop", "mine")
    folder = tmp_path / ".claude/pipelines"
    (folder / "mine/changelog.md").write_text(prompt)
    with (folder / "mine.yaml").open("a") as file:
        file.write(re.sub(r"^   ", "", node, flags=re.MULTILINE))
    (folder / "mine.yaml").write_text(
        (folder / "mine.yaml").read_text().replace("reviewer]\n", "reviewer, changelog]\n")
    )
    (found,) = Definitions(tmp_path, {}).lint_all()
    assert found.diagnostics == ()

    def writes(request):  # type: ignore[no-untyped-def]
        (tmp_path / "CHANGELOG.md").write_text("A slugify function\n")
        return says("written")(request)

    story = Story(tmp_path, changelog=[says("forgot"), writes])
    assert story.run(pipeline="mine").completed
    assert story.stages == [
        "planner",
        "executor",
        "executor",
        "verifier",
        "reviewer",
        "changelog",
        "changelog",
    ]
