"""AgentForge imports nothing from the folder that it is started in."""

import ast
import sys
from pathlib import Path

import pytest
from tests.sampling import one_in
from tests.source_trees import nodes_of, tree_of
from tests.surface.terminal import Project

import agentforge

MODULES = ("click", "msgspec", "yaml", "rich", "json", "asyncio", "subprocess", "shlex", "sitecustomize")
SOURCE = Path(agentforge.__file__).parent


@pytest.fixture
def canary(project: Project) -> Path:
    """A project full of modules that leave a canary, one of them offered as a provider."""
    canary = project.root.parent / "canary"
    code = f"open({str(canary)!r}, 'a').write(__name__)\n"
    for name in (*MODULES, "evil"):
        (project.root / f"{name}.py").write_text(code)
    about = project.root / "evil-1.0.egg-info"
    about.mkdir()
    (about / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[agentforge.providers]\nevil = evil:Evil\n")
    return canary


@pytest.mark.parametrize("start", one_in(2, [("-m", "agentforge"), ("-P", "-m", "agentforge")]), ids=" ".join)
@pytest.mark.parametrize("command", [("doctor",), ("providers",), ("list",), ("lint",)], ids=" ".join)
def test_a_command_imports_nothing_from_the_project(
    project: Project, canary: Path, start: tuple[str, ...], command: tuple[str, ...]
) -> None:
    done = project.call_program(sys.executable, *start, *command)
    assert not canary.exists()
    assert "evil" not in done.out + done.err
    assert "Traceback" not in done.err


def test_a_run_imports_nothing_from_the_project(project: Project, canary: Path) -> None:
    """Engine, supervisor and the player of a cassette."""
    (project.root / "c.jsonl").write_text(
        '{"format": "agentforge-cassette", "version": 1}\n'
        '{"stage": "plan", "iteration": 1, "steps": [{"do": "result", "value": {"summary": "done"}}]}\n'
    )
    (project.root / "p.yaml").write_text(
        "name: p\nnodes:\n  - {id: plan, prompt: x, runs: 1, provider: {type: replay, cassette: c.jsonl}}\n"
    )
    done = project.call("run", "-p", "p.yaml", "-s", "s")
    assert done.code == 0, done.err
    assert not canary.exists()


def test_every_python_that_the_product_starts_ignores_the_current_folder() -> None:
    """`-I` or `-P` follows the interpreter, wherever a command line begins with it."""
    for path in SOURCE.rglob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.Tuple | ast.List) and node.elts and _is_python(node.elts[0]):
                assert _first_option(tree_of(path), node.elts[1:]) in ("-I", "-P"), (
                    f"{path.name}:{node.lineno}"
                )


def _is_python(word: ast.expr) -> bool:
    match word:
        case ast.Attribute(value=ast.Name(id="sys"), attr="executable"):
            return True
    return False


def _first_option(module: ast.Module, words: list[ast.expr]) -> object:
    """The first of the words, also if it is the first one of a constant of the module."""
    match words:
        case [ast.Constant(value=word), *_]:
            return word
        case [ast.Starred(value=ast.Name(id=name)), *_]:
            constants = [
                node.value
                for node in module.body
                if isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id == name
            ]
            return ast.literal_eval(constants[0])[0]
    return None
