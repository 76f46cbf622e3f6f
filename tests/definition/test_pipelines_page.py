"""The examples of docs/pipelines.md and docs/sandboxes.md compile, without a word of error."""

import re
from pathlib import Path

import pytest

from agentforge.adapters.host.project_files import FileSources
from agentforge.definition.compiler import compile_pipeline
from agentforge.model.plan import ParallelNode, StageNode

DOCS = Path(__file__).resolve().parents[2] / "docs"


def examples(page: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


EXAMPLES = examples("pipelines.md")


@pytest.mark.parametrize(
    "example", [*EXAMPLES, *examples("sandboxes.md")], ids=lambda text: text.split("\n")[1].strip()
)
def test_example_compiles(example: str, tmp_path: Path) -> None:
    assert compile_pipeline(FileSources(tmp_path, {}), example, "x").warnings == ()


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
