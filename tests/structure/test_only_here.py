"""Only `system` opens and looks for files below a project, and runs programs that are waited for, with
exceptions.

Looking at an entry itself (`lstat`, `lexists`, `islink`, `readlink`, `access`) and resolving a path are
allowed everywhere: they open nothing.
"""

import ast
from functools import cache
from pathlib import Path

import pytest
from tests.source_trees import nodes_of

SOURCE = Path(__file__).parents[2] / "src" / "agentforge"

APART = {
    "system": "the one place",
    "testing": "the test kit",
    "runtime/supervisor.py": "a program of its own, standard library only",
    "cli/commands/demo.py": "makes a project of its own in a temporary folder",
    "cli/output.py": "/dev/null, the size of the terminal",
    "cli/invocation.py": "the project's folder, which the user named",
    "adapters/host/processes.py": "/proc, and starting the supervisor, which outlives the engine",
    "adapters/host/tmux.py": "the launch file, in the system's temporary folder",
    "adapters/host/tmux_child.py": "a program of its own, standard library only",
    "adapters/host/probe.py": "a nameless file whose syncs are timed",
    "adapters/host/project_files.py": "the place of the package itself",
    "adapters/host/tree_scan.py": "descriptors that `system` opened",
    "adapters/sandboxes/bwrap.py": "/proc, folders in the user's home",
    "adapters/sandboxes/docker.py": "whether a path to hide is a folder",
    "adapters/sandboxes/mounts.py": "the first line of a program, programs on the PATH",
    "adapters/environment.py": "whether the first folder of a path exists",
    "adapters/cli_agents/program.py": "an agent, not a helper: it runs for hours and has a prompt on stdin",
    "adapters/providers/python_class.py": "the place of the package itself",
    "adapters/providers/replay_player.py": "a program of its own that plays an agent",
    "app/project_tests.py": "a report in a temporary folder",
    "adapters/host/git_remote.py": "a repository of its own in a temporary folder",
    "app/runs/comparison.py": "a repository of its own in a temporary folder",
    "app/providers/logins.py": "the logins of agents, in the user's home",
    "tool_loop/program.py": "a pipe",
}

OF_OS = {
    *("open", "replace", "rename", "renames", "link", "symlink", "unlink", "remove", "mkdir", "makedirs"),
    *("rmdir", "removedirs", "fsync", "fdatasync", "truncate", "chmod", "chown", "utime", "mkfifo", "mknod"),
    *("stat", "listdir", "scandir", "walk", "fwalk"),
}
OF_OS_PATH = {
    *("exists", "isfile", "isdir", "ismount", "samefile", "getsize", "getmtime", "getatime", "getctime"),
}
OF_PATHS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "glob", "rglob"),
    *("unlink", "mkdir", "rmdir", "touch", "symlink_to", "hardlink_to", "chmod"),
    *("is_file", "is_dir", "is_mount", "samefile"),
}
OF_PATHS_AND_OTHERS = {"open", "exists", "stat", "rename", "replace", "resolve", "walk"}
"""Names that other objects have, too: only directly on `Path(…)` or an expression with `/`."""
MODULES = {"subprocess", "tempfile", "shutil", "glob"}
OUR_OWN = {"files", "sources", "self._sources"}
"""Objects whose methods are named like those of a path, and which follow the rules."""


def reaches_out(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="open")):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=name)):
            return _is_access(value, name)
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="path"), attr=name):
            return name in OF_OS_PATH  # Also as an argument: `filter(os.path.isdir, …)`.
        case ast.ImportFrom(
            module="subprocess" | "tempfile" | "shutil" | "glob" | "os" | "os.path", names=names
        ):
            return any(name.name in OF_OS | OF_OS_PATH | {"glob", "iglob", "which"} for name in names)
    return False


def _is_access(value: ast.expr, name: str) -> bool:
    match value:
        case ast.Name(id="os"):
            return name in OF_OS
        case ast.Name(id=module) if module in MODULES:
            return True
        case _ if ast.unparse(value) in OUR_OWN:
            return False
        case ast.Call(func=ast.Name(id="Path")) | ast.BinOp(op=ast.Div()):
            return name in OF_PATHS | OF_PATHS_AND_OTHERS
    return name in OF_PATHS or name in ("create_subprocess_exec", "create_subprocess_shell")


def is_reaching(code: str) -> bool:
    return any(reaches_out(node) for node in ast.walk(ast.parse(code)))


@cache
def reaching() -> tuple[str, ...]:
    found = (path for path in sorted(SOURCE.rglob("*.py")) if any(map(reaches_out, nodes_of(path))))
    return tuple(str(path.relative_to(SOURCE)) for path in found)


def test_no_other_module_opens_files_or_runs_programs() -> None:
    found = [name for name in reaching() if name not in APART and name.split("/")[0] not in APART]
    assert found == [], "use agentforge.system.files or agentforge.system.programs, or give a reason in APART"


def test_every_exception_is_still_one() -> None:
    found = set(reaching())
    assert [name for name in APART if name.endswith(".py") and name not in found] == []


@pytest.mark.parametrize(
    "code",
    [
        *("open(p)", "os.path.exists(p)", "os.path.isfile(p)", "filter(os.path.isdir, p)", "os.walk(p)"),
        *("os.scandir(p)", "glob.glob(p)", "shutil.copy(p, q)", "Path(p).exists()", "(root / p).stat()"),
        *("path.is_dir()", "path.read_text()", "from os.path import isdir", "from glob import glob"),
    ],
)
def test_it_finds_plain_access(code: str) -> None:
    assert is_reaching(code)


@pytest.mark.parametrize("code", ["os.lstat(p)", "files.is_file(p)", "text.replace(a, b)", "os.path.join(p)"])
def test_it_leaves_others_alone(code: str) -> None:
    assert not is_reaching(code)
