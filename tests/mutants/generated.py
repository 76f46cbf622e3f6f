"""Generated mutations: `python -m tests.mutants.generated MODULE…`, such as `engine/decide`.

mutmut changes every expression of the modules, one at a time, and runs the tests that reach it. Here it is
given a copy of the project and the tests that are meant to notice. What no test notices is printed as a
diff, and the exit status is 1 if fewer are caught than TARGETS asks for.

Two kinds don't count: those in SURVIVORS, each with its reason, and those that change only the words of a
message, which the tests of the surfaces read.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from .__main__ import AT_ONCE, say
from .mutation import ROOT
from .survivors import SURVIVORS

FOLDER = ROOT / ".mutate"
SITE = FOLDER / "site"
"""mutmut and what it needs, apart from the environment of the tests; `make mutate` installs it."""
COPIED = (
    "conftest.py",
    "pyproject.toml",
    "Makefile",
    "README.md",
    "docs",
    "examples",
    "bench",
    "tools",
    "requirements",
)
MODULES = (
    "engine/evolve",
    "engine/decide",
    "engine/checks",
    "runtime/journal",
    "runtime/answers",
    "runtime/supervision",
    "runtime/confinement",
    "adapters/log",
)
"""Those that are tried without arguments: decisions, durability, order and confinement."""
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not soak and not agents")
TARGETS = {"engine": 0.95}
TARGET = 0.90
TESTS = {
    "adapters/log": ("tests/adapters", "tests/fuzz"),
    "runtime/confinement": ("tests/runtime", "tests/security"),
}
"""The tests of other modules are those of their package."""
CAUGHT = {1, 3, 24, 36, 37, 152, 255, -24, -11, -9}
"""Exit statuses: a test failed, ran out of time, or ended the process; 37: the types are wrong."""


class Survivor(NamedTuple):
    name: str
    removed: str
    added: str

    @property
    def place(self) -> str:
        """The module and the function, as SURVIVORS has them."""
        module, _, mangled = self.name.rpartition("__mutmut_")[0].rpartition(".")
        return f"{module.removeprefix('agentforge.')}.{re.sub(r'^xǁ|^x_', '', mangled).replace('ǁ', '.')}"


def tests_of(module: str) -> tuple[str, ...]:
    return next(
        (tests for prefix, tests in TESTS.items() if module.startswith(prefix)),
        (f"tests/{module.partition('/')[0]}",),
    )


def settings(module: str) -> str:
    files = [f"src/agentforge/{module}.py", f"src/agentforge/{module}/*"]
    return "\n".join(
        (
            "[tool.mutmut]",
            'source_paths = ["src/agentforge"]',
            f"only_mutate = {json.dumps(files)}",
            f"also_copy = {json.dumps(COPIED)}",
            f"pytest_add_cli_args = {json.dumps(OPTIONS)}",
            f"pytest_add_cli_args_test_selection = {json.dumps(tests_of(module))}",
            'process_isolation = "forkserver"',  # Tests leave children, such as their fork server, to mutmut.
            "use_git_change_detection = false",
            "track_dependencies = false",
        )
    )


def project(module: str) -> Path:
    """A copy of the project in which mutmut works; what it found about unchanged functions is kept there."""
    folder = FOLDER / module.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("src", "tests", *COPIED):
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    with (folder / "pyproject.toml").open("a") as file:
        file.write(f"\n{settings(module)}\n")
    return folder


def mutmut(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(SITE)}
    shows = words[0] == "show"
    return subprocess.run(
        [sys.executable, "-m", "mutmut", *words],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE if shows else None,
        stderr=subprocess.DEVNULL if shows else None,
        text=True,
        check=False,
    )


def outcomes(folder: Path) -> dict[str, int | None]:
    """The exit status of the tests, by the name of the mutation."""
    found: dict[str, int | None] = {}
    for path in (folder / "mutants").rglob("*.meta"):
        found |= json.loads(path.read_text())["exit_code_by_key"]
    return found


def survivor(folder: Path, name: str) -> Survivor:
    shown = mutmut(folder, "show", name).stdout.splitlines()
    changed = [line for line in shown if line[:1] in ("-", "+") and line[:3] not in ("---", "+++")]
    sides = ("\n".join(line[1:].strip() for line in changed if line[0] == sign) for sign in "-+")
    return Survivor(name, *sides)


def changes_a_message(found: Survivor) -> bool:
    """Whether only the text of a string differs that people read: one with a space."""
    texts = re.findall(r'"([^"]*)"', found.removed)
    frames = (re.sub(r'"[^"]*"', '""', side) for side in (found.removed, found.added))
    return any(" " in text for text in texts) and len(set(frames)) == 1


def reason(found: Survivor) -> str:
    """Why it doesn't count; empty if it does."""
    if changes_a_message(found):
        return "the words of a message"
    return SURVIVORS.get(found.place, {}).get(found.added, "")


def report(folder: Path, module: str) -> bool:
    """Print what wasn't caught. Whether enough was."""
    results = outcomes(folder)
    missing = [name for name, code in sorted(results.items()) if code not in CAUGHT]
    counted = [found for name in missing if not reason(found := survivor(folder, name))]
    for found in counted:
        say(f"\n{found.place}\n- {found.removed}\n+ {found.added}")
    total = len(results) - len(missing) + len(counted)
    caught = 1 - len(counted) / max(total, 1)
    target = TARGETS.get(module.partition("/")[0], TARGET)
    left_out = len(results) - total
    say(f"{module}: {caught:.1%} of {total} caught (target {target:.0%}), {left_out} don't count")
    return caught >= target


if __name__ == "__main__":
    enough = True
    for name in sys.argv[1:] or MODULES:
        copied = project(name)
        if mutmut(copied, "run", "--max-children", str(AT_ONCE)).returncode:
            sys.exit(f"{name}: its tests fail without a mutation")
        enough &= report(copied, name)
    sys.exit(not enough)
