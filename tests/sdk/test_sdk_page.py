"""docs/sdk.md: its blocks use nothing but the public API."""

import ast

from tests.code_blocks import code_blocks

BLOCKS = [block.text for block in code_blocks("docs/sdk.md", "python")]


def test_blocks_import_the_public_api_only() -> None:
    imported = {
        node.module or ""
        for block in BLOCKS
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentforge")
    }
    assert imported
    assert {name for name in imported if name.split(".")[1:2] not in ([], ["provider"], ["testing"])} == set()
