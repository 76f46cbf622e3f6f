"""Commands print through `cli/output.py` and `cli/live.py`, which make every text harmless for a terminal."""

import ast
from pathlib import Path

CLI = Path(__file__).resolve().parents[2] / "src" / "agentforge" / "cli"
APART = {"output.py": "the one place", "live.py": "Rich, with texts made by `shown` and `append`"}
PRINTS = {"echo", "secho", "echo_via_pager", "print"}


def prints(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="print")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="click"), attr=name)):
            return name in PRINTS
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys")), attr="write")):
            return True
    return False


def test_commands_print_through_one_function() -> None:
    files = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in CLI.rglob("*.py")}
    found = {name for name, tree in files.items() if any(map(prints, ast.walk(tree)))}
    assert found - set(APART) == set(), "use `echo` or `echo_json` of cli/output.py"


def test_live_display_makes_its_texts_in_one_place() -> None:
    tree = ast.parse((CLI / "live.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert sum(isinstance(call.func, ast.Name) and call.func.id == "Text" for call in calls) == 1
