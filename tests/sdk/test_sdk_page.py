"""docs/sdk.md: its blocks run as they are, one after the other, with nothing but the public API."""

import ast
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs/sdk.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    program = tmp_path / "page.py"
    program.write_text("\n\n".join(BLOCKS), encoding="utf-8")
    project = tmp_path / "project"
    project.mkdir()
    ran = subprocess.run(
        [sys.executable, str(program)], cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]


def test_blocks_import_the_public_api_only() -> None:
    imported = {
        node.module or ""
        for block in BLOCKS
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentforge")
    }
    assert imported
    assert {name for name in imported if name.split(".")[1:2] not in ([], ["provider"], ["testing"])} == set()
