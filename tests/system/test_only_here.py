"""Only `system` opens files below a project and runs programs that are waited for, with exceptions."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "agentforge"

APART = {
    "system": "the one place",
    "testing": "the test kit",
    "runtime/supervisor.py": "a program of its own, standard library only",
    "cli/commands/demo.py": "makes a project of its own in a temporary folder",
    "cli/output.py": "/dev/null",
    "adapters/processes/local.py": "/proc, and starting the supervisor, which outlives the engine",
    "adapters/host/tmux.py": "the launch file, in the system's temporary folder",
    "adapters/host/tmux_child.py": "a program of its own, standard library only",
    "adapters/host/probe.py": "a nameless file whose syncs are timed",
    "adapters/host/file_systems.py": "/proc",
    "adapters/sandboxes/bwrap.py": "/proc, folders in the user's home",
    "adapters/sandboxes/programs.py": "the first line of a program",
    "adapters/cli_agents/program.py": "an agent, not a helper: it runs for hours and has a prompt on stdin",
    "adapters/providers/replay_player.py": "a program of its own that plays an agent",
    "tool_loop/program.py": "a pipe",
}

OF_OS = {
    *("open", "replace", "rename", "link", "symlink", "unlink", "remove", "mkdir", "makedirs", "rmdir"),
    *("fsync", "fdatasync", "truncate"),
}
OF_PATHS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "iterdir"),
    *("unlink", "mkdir", "rmdir", "touch", "symlink_to", "hardlink_to"),
}


def reaches_out(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="open"):
            return True
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name in OF_OS
        case ast.Attribute(value=ast.Name(id="files")):
            return False
        case ast.Attribute(value=ast.Name(id="subprocess" | "tempfile")):
            return True
        case ast.Attribute(value=ast.Call(func=ast.Name(id="Path")), attr="open"):
            return True
        case ast.Attribute(attr=name):
            return name in OF_PATHS or name in ("create_subprocess_exec", "create_subprocess_shell")
    return False


def reaching() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.Call) and reaches_out(node) for node in ast.walk(tree)):
            yield str(path.relative_to(SOURCE))


def test_no_other_module_opens_files_or_runs_programs() -> None:
    found = [name for name in reaching() if name not in APART and name.split("/")[0] not in APART]
    assert found == [], "use agentforge.system.files or agentforge.system.programs, or give a reason in APART"


def test_every_exception_is_still_one() -> None:
    found = set(reaching())
    assert [name for name in APART if name.endswith(".py") and name not in found] == []
