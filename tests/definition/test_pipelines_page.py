"""The examples of docs/pipelines.md mean what the page says."""

from pathlib import Path

from tests.code_blocks import code_blocks

from agentforge.adapters.host.project_files import FileSources
from agentforge.definition.compiler import compile_pipeline
from agentforge.model.plan import ParallelNode, StageNode

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
