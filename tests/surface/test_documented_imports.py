"""README, docs and examples import nothing but the public API, and only what it exports."""

import ast
from collections.abc import Iterator

import pytest
from tests.code_blocks import ROOT, code_blocks

import agentforge
import agentforge.core.orchestration
import agentforge.core.pipeline
import agentforge.provider
import agentforge.testing

PUBLIC = {
    module.__name__: set(module.__all__)
    for module in (
        agentforge,
        agentforge.core.orchestration,
        agentforge.core.pipeline,
        agentforge.provider,
        agentforge.testing,
    )
}
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("README.md", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
PROGRAMS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("examples/**/*.py"))


def private_imports(source: str) -> Iterator[str]:
    """What a program imports of AgentForge that is not public."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (
                alias.name for alias in node.names if is_ours(alias.name) and alias.name not in PUBLIC
            )
        elif isinstance(node, ast.ImportFrom) and is_ours(node.module or ""):
            known = PUBLIC.get(node.module or "", set())
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name not in known)


def is_ours(module: str) -> bool:
    return module.partition(".")[0] == "agentforge"


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_import_the_public_api_only(page: str) -> None:
    found = {name for block in code_blocks(page, "python") for name in private_imports(block.text)}
    assert found == set()


@pytest.mark.parametrize("program", PROGRAMS)
def test_examples_import_the_public_api_only(program: str) -> None:
    assert set(private_imports((ROOT / program).read_text(encoding="utf-8"))) == set()


def test_pages_and_programs_import_something() -> None:
    texts = [block.text for page in PAGES for block in code_blocks(page, "python")]
    texts += [(ROOT / program).read_text(encoding="utf-8") for program in PROGRAMS]
    modules = {name for name in PUBLIC if any(f"from {name} import" in text for text in texts)}
    assert modules == set(PUBLIC)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from agentforge.provider import Capabilities\nimport agentforge.testing as kit", []),
        ("from agentforge import Engine, facts\nimport os, agentforge_more", []),
        ("from agentforge.sdk.engine import Engine", ["agentforge.sdk.engine.Engine"]),
        ("from agentforge import sdk, Engine", ["agentforge.sdk"]),
        (
            "from agentforge.testing.scripted_provider import says",
            ["agentforge.testing.scripted_provider.says"],
        ),
        ("def f():\n    import os, agentforge.sdk.engine as e", ["agentforge.sdk.engine"]),
    ],
)
def test_private_imports_are_found(source: str, found: list[str]) -> None:
    assert list(private_imports(source)) == found
