"""Every code block of README and docs works as it is printed, each page in a fresh repository. Only ports are
replaced, as those that are printed may be in use."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from textwrap import indent

import pytest
from tests.adapters.fake_clis import put_cli, speaking
from tests.code_blocks import ROOT, CodeBlock, code_blocks
from tests.free_port import free_port
from tests.surface.warm_program import put_command

from agentforge import Definitions, Diagnostic, Engine, LintResult
from agentforge.adapters.host.project_files import FileSources
from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.report import Report
from agentforge.definition.settings import read_settings

PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
BLOCKS = [block for page in PAGES for block in code_blocks(page)]
SHELLS = ("sh", "bash")
SOURCE = str(ROOT / "src")
PROGRAMS = {
    page for page in PAGES if any(block.language in (*SHELLS, "python") for block in code_blocks(page))
}
SHOWN = {"text", "lua", "ini"}
"""Output, synopses, and settings of other programs."""
NOT_RUN = {
    "README.md": 2,
    "docs/agents.md": 1,
    "docs/benchmarks.md": 2,
    "docs/controller.md": 1,
    "docs/durability.md": 2,
    "docs/evidence.md": 1,
    "docs/limits.md": 2,
    "docs/providers-api.md": 1,
    "docs/runs.md": 1,
    "docs/traces.md": 1,
}
"""How many shell blocks of a page can't run in an empty folder."""


def test_every_block_has_a_language() -> None:
    known = {*SHELLS, *SHOWN, "python", "yaml", "markdown", "json", "jsonl"}
    assert [block.place for block in BLOCKS if block.language not in known] == []


def test_blocks_that_are_not_run_are_few() -> None:
    assert Counter(block.page for block in BLOCKS if block.marker) == NOT_RUN


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language.startswith("json")], ids=lambda block: block.place
)
def test_json_is_valid(block: CodeBlock) -> None:
    texts = [block.text] if block.language == "json" else block.text.splitlines()
    assert all(isinstance(json.loads(text), dict | list) for text in texts)


PIPELINES = [block for block in BLOCKS if block.language == "yaml" and "\nnodes:" in f"\n{block.text}"]


@pytest.mark.parametrize("block", PIPELINES, ids=lambda block: block.place)
def test_pipelines_compile_without_a_warning(block: CodeBlock, tmp_path: Path) -> None:
    written = [other for other in code_blocks(block.page) if other.path and "/" in other.path]
    put_files(tmp_path, written)
    compiled = compile_pipeline(FileSources(tmp_path, {}), block.text, "x")
    assert compiled.warnings == ()


FRAGMENTS = [block for block in BLOCKS if block.language == "yaml" and block not in PIPELINES]


@pytest.mark.parametrize("block", FRAGMENTS, ids=lambda block: block.place)
def test_other_yaml_is_accepted_without_a_warning(block: CodeBlock, tmp_path: Path) -> None:
    """A file by its path; anything else belongs into a node."""
    put_files(tmp_path, [other for other in code_blocks(block.page) if other.path])
    definitions = Definitions(tmp_path, {})
    match block.path.split("/"):
        case [".claude", "stages", name, "stage.yaml"]:
            found = definitions.lint(name, "stage").diagnostics
        case [".agentforge", "providers", name]:
            found = definitions.lint_provider(name.removesuffix(".yaml")).diagnostics
        case [".agentforge", "pipelines", name]:
            found = definitions.lint(name.removesuffix(".yaml"), "pipeline").diagnostics
        case [".agentforge", "config", "stages", _]:
            found = tuple(one for each in definitions.lint_all() for one in each.diagnostics)
        case [".agentforge", "config", _] | [".agent", _]:
            (tmp_path / block.path).write_text(block.text, encoding="utf-8")
            read_settings(FileSources(tmp_path, {}), report := Report())
            found = report.diagnostics
        case _:
            assert block.path == ""
            found = checked_in_a_node(tmp_path, block.text)
    assert found == ()


def checked_in_a_node(project: Path, fragment: str) -> tuple[Diagnostic, ...]:
    """With the provider's settings, which only a provider can check."""
    nodes = indent(f"prompt: Do it.\n{fragment}", "    ")
    (project / "node.yaml").write_text(f"name: x\nnodes:\n  - id: a\n{nodes}", encoding="utf-8")

    async def main() -> LintResult:
        async with Engine(project, environ={"HOME": str(project), "PATH": os.environ["PATH"]}) as engine:
            return await engine.lint("node.yaml", "pipeline")

    return asyncio.run(main()).diagnostics


CONFINED = {"README.md", "docs/loop.md", "docs/controller.md"}
"""Its agents run in a sandbox, which has a /dev of its own: not in a folder in memory."""


@pytest.mark.parametrize("page", sorted(PROGRAMS))
def test_blocks_of_a_page_run_as_printed(
    page: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if page in CONFINED:
        tmp_path = tmp_path_factory.mktemp("page")
    project = tmp_path / "project"
    project.mkdir()
    environ = environment(tmp_path)
    run(["git", "init", "-q"], project, environ, page)
    program = ""
    for block in with_free_ports(code_blocks(page)):
        if block.path:
            put_files(project, [block])
        elif block.language in SHELLS and not block.marker:
            run(["bash", "-euo", "pipefail", "-c", block.text], project, environ, block.place)
        elif block.language == "python":
            program += f"\n\n{block.text}"
    if program:
        (tmp_path / "page.py").write_text(program, encoding="utf-8")
        run([sys.executable, str(tmp_path / "page.py")], project, environ, page)


_ON_LOOPBACK = re.compile(r'(127\.0\.0\.1(?::|", ))(\d+)')


def with_free_ports(blocks: list[CodeBlock]) -> list[CodeBlock]:
    """The same blocks, with another port for each that is printed, in all of them."""
    printed = {found[2] for block in blocks for found in _ON_LOOPBACK.finditer(block.text)}
    free = {port: free_port() for port in printed}
    return [
        block._replace(text=_ON_LOOPBACK.sub(lambda found: f"{found[1]}{free[found[2]]}", block.text))
        for block in blocks
    ]


def test_a_port_is_replaced_wherever_it_is_printed() -> None:
    server, client = with_free_ports(
        [
            CodeBlock("x.md", 1, "python", 'serve("127.0.0.1", 8642)'),
            CodeBlock("x.md", 2, "yaml", "url: http://127.0.0.1:8642/review"),
        ]
    )
    port = int(client.text.removeprefix("url: http://127.0.0.1:").removesuffix("/review"))
    assert port != 8642
    assert server.text == f'serve("127.0.0.1", {port})'


def put_files(project: Path, blocks: list[CodeBlock]) -> None:
    for block in blocks:
        path = project / block.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")


FINE = {"level": "good", "explanation": "fine"}
DIMENSIONS = ("intent_alignment", "code_quality", "completeness", "consistency", "safety")
# One object that matches the schemas of all stages of the loop, and of `design`.
ARTIFACT = {
    "goal": "slugify exists",
    "steps": [{"id": "s1", "title": "Write slugify", "action": "Write it.", "criteria": ["It works."]}],
    "verdict": "pass",
    "summary": "done",
    "checks": [{"name": "it works", "status": "pass"}],
    "tried": ["an empty text"],
    "dimensions": dict.fromkeys(DIMENSIONS, FINE),
    "detected_scope": "feature_addition",
    "priority": "medium",
    "clarified_requirements": "Log in with GitHub.",
    "scope_confirmed": True,
    "analysis": {"summary": "There is no login."},
    "affected_files": ["app.py"],
    "components": [{"name": "login", "type": "module"}],
    "test_cases": [],
}
WRITE_ARTIFACT = f"""
if place := os.environ.get("AGENTFORGE_ARTIFACT"):
    with open(place, "w") as file:
        json.dump({ARTIFACT!r}, file)
"""


def environment(folder: Path) -> dict[str, str]:
    """Of a user whose agents are stand-ins: they write a result and print what the real ones once printed."""
    programs, home = folder / "bin", folder / "home"
    home.mkdir()
    for name in ("claude", "my-agent"):
        spoken = speaking("claude").replace('"done"', '"done", "decision": "stop"')
        put_cli(programs, name, spoken + WRITE_ARTIFACT)
    for name in ("agentforge", "agent-pipelines"):
        put_command(programs / name, SOURCE)
    path = f"{programs}:{os.environ['PATH']}"
    # A tmux server of its own, so that no other server is affected.
    apart = {"HOME": str(home), "TMUX_TMPDIR": str(home)}
    return {"PATH": path, "LANG": "C.UTF-8", "PYTHONPATH": SOURCE, **apart}


def run(line: list[str], folder: Path, environ: dict[str, str], place: str) -> None:
    done = subprocess.run(
        line, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{place}\n{done.stdout.decode()[-2000:]}\n{done.stderr.decode()[-2000:]}"
