"""The examples of docs/pipelines.md mean what the page says."""

import re
from pathlib import Path
from typing import get_args

from tests.code_blocks import ROOT, code_blocks

from agentforge.adapters.host.project_files import FileSources
from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.read.hook_keys import HOOK, NOTIFICATION, POINTS
from agentforge.model.condition import VARIABLES, Operator
from agentforge.model.plan import ParallelNode, StageNode

PAGE = (ROOT / "docs/pipelines.md").read_text(encoding="utf-8")
EXAMPLES = [block.text for block in code_blocks("docs/pipelines.md", "yaml")]


def test_the_example_of_blocks_links_as_documented(tmp_path: Path) -> None:
    (example,) = [text for text in EXAMPLES if "parallel:" in text]
    _, review, merge = compile_pipeline(FileSources(tmp_path, {}), example, "x").plan.nodes
    assert isinstance(review, ParallelNode)
    assert isinstance(merge, StageNode)
    crossed = {b.provider: b.stages[0].sources.from_parallel[0].providers for b in review.branches}
    assert crossed == {"claude": ("codex",), "codex": ("claude",)}
    assert [(s.block, s.select) for s in merge.sources.from_parallel] == [
        ("ideas", "latest"),
        ("review", "all"),
    ]


def first_cells(title: str, end: str) -> set[str]:
    """The names in the first column of the tables of a section."""
    section = PAGE[PAGE.index(f"\n{title}\n") : PAGE.index(f"\n{end}\n")].replace("\\|", "¦")
    cells = (line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))
    return {name.replace("¦", "|") for cell in cells for name in re.findall("`([^`]+)`", cell)}


def test_the_page_has_all_keys_points_and_actions_of_hooks() -> None:
    names = {key.name for key in (*HOOK.keys, *POINTS.keys)} - {"action"}
    assert first_cells("## Hooks", "### Conditions") == {"action", "pause", "confirm", "webhook"} | names
    assert first_cells("## Notifications", "## Parallel blocks") == {key.name for key in NOTIFICATION.keys}


def test_the_page_has_all_variables_and_operators_of_conditions() -> None:
    documented = first_cells("### Conditions", "## Notifications")
    assert documented == {*VARIABLES, *get_args(Operator)}
