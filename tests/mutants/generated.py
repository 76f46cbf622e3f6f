"""Generated mutations: `python -m tests.mutants.generated MODULE…`, such as `engine/decide`.

mutmut changes every expression of the modules, one at a time, in a copy of the project; `trial.py` runs the
tests that reach each change, and those that mypy rejects aren't run. What nothing notices is printed as a
diff, and the exit status is 1 if fewer are caught than TARGETS asks for.

Three kinds don't count: those in SURVIVORS, each with its reason, those that change only the words of a
message, which the tests of the surfaces read, and those in a case that mypy proves to be impossible.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from .__main__ import say
from .mutation import ROOT
from .survivors import SURVIVORS
from .trial import CAUGHT, OPEN, ORIGINAL, TOO_LONG, WRONG_TYPES, function

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
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist")
MARKED = "not soak and not agents"
QUICK = f"{MARKED} and not hypothesis"
"""For the engine: whole runs that are drawn at random take long, and catch a mutation only by chance."""
TARGETS = {"engine": 0.95}
TARGET = 0.90
TESTS = {
    "engine": ("tests/engine", "tests/views", "tests/sdk/test_golden_logs.py"),
    "adapters/log": (
        "tests/adapters/test_displaced_log.py",
        "tests/adapters/test_jsonl_log_contract.py",
        "tests/adapters/test_jsonl_log_disk.py",
        "tests/adapters/test_jsonl_log_edges.py",
        "tests/adapters/test_jsonl_log_full_tmpfs.py",
        "tests/adapters/test_jsonl_log_processes.py",
        "tests/adapters/test_jsonl_log_settings.py",
        "tests/adapters/test_jsonl_log_writer.py",
        "tests/adapters/test_log_scan.py",
        "tests/adapters/test_write_ahead.py",
        "tests/sdk/test_shell_engine_runs.py",
    ),
    "runtime/answers": (
        "tests/runtime/test_answers.py",
        "tests/runtime/test_controls.py",
        "tests/sdk/test_answers.py",
        "tests/sdk/test_requests.py",
    ),
    "runtime/confinement": (
        "tests/runtime/test_agent_programs.py",
        "tests/runtime/test_confinement.py",
        "tests/runtime/test_placeholders.py",
        "tests/runtime/test_preparation.py",
    ),
    "runtime/journal": (
        "tests/runtime/test_controls.py",
        "tests/runtime/test_journal.py",
        "tests/runtime/test_journal_opening.py",
        "tests/runtime/test_journal_sync.py",
        "tests/runtime/test_notifier.py",
        "tests/runtime/test_state_writer.py",
    ),
    "runtime/supervision": (
        "tests/runtime/test_agent_outcomes.py",
        "tests/runtime/test_interpretation.py",
        "tests/runtime/test_left_programs.py",
        "tests/runtime/test_living_programs.py",
        "tests/runtime/test_reattachment.py",
        "tests/runtime/test_supervised.py",
        "tests/runtime/test_supervised_claims.py",
    ),
}
"""The tests of other modules are those of their package."""


class Survivor(NamedTuple):
    name: str
    removed: str
    added: str

    @property
    def place(self) -> str:
        """The module and the function, as SURVIVORS has them."""
        module, _, mangled = function(self.name).rpartition(".")
        return f"{module}.{re.sub(r'^xǁ|^x_', '', mangled).replace('ǁ', '.')}"


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


GENERATE = """
import mutmut.__main__ as m
m.set_mutant_under_test("mutant_generation")
m.makedirs("mutants", exist_ok=True)
m.copy_src_dir()
m.copy_also_copy_files()
m.create_mutants(2)
"""
"""What `mutmut run` begins with."""
SHOW = """
import sys
from mutmut.mutation.diff_apply import get_diff_for_mutant
for name in sys.argv[1:]:
    print("@@", name)
    print(get_diff_for_mutant(name))
"""


def python(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python with mutmut; its output is read if it runs given code or a checker."""
    reads = "trial" not in words[1]
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SITE), **environ},
        stdout=subprocess.PIPE if reads else None,
        text=True,
        check=False,
    )


def generate(folder: Path) -> None:
    for meta in (folder / "mutants").rglob("*.meta"):
        if not (folder / meta.relative_to(folder / "mutants")).with_suffix("").exists():
            meta.unlink()  # Its module was removed since.
            meta.with_suffix("").unlink()
    shutil.rmtree(folder / "mutants" / "tests", ignore_errors=True)  # mutmut copies them again.
    made = python(folder, "-c", GENERATE)
    if made.returncode:
        sys.exit(made.stdout)


def reject_wrong_types(folder: Path, module: str) -> None:
    """Mark the mutations that mypy rejects, as `make check` would."""
    mutants = folder / "mutants"
    package = f"agentforge.{module.replace('/', '.')}"
    checked = ("-m", "mypy", "--no-pretty", "--no-error-summary", "-p", package)
    errors: dict[str, list[tuple[int, str]]] = {}
    for line in python(mutants, *checked, MYPYPATH=f"src:{SITE}").stdout.splitlines():
        if found := re.match(r"(src/\S+?):(\d+): error: (.*)", line):
            errors.setdefault(found[1], []).append((int(found[2]), found[3]))
    for path, found_there in errors.items():
        meta, spans = mutants / f"{path}.meta", mutants / f"{path}.spans"
        if meta.exists() and spans.exists():
            _reject(meta, json.loads(spans.read_text())["spans"], found_there)


def _reject(meta: Path, spans: dict[str, tuple[int, int]], errors: list[tuple[int, str]]) -> None:
    told = [(name, text) for line, text in errors for name, (a, b) in spans.items() if a <= line <= b]
    # Copying a function can be an error in itself: its attributes are declared twice, say.
    usual = {text for name, text in told if name.endswith(ORIGINAL)}
    wrong = {name for name, text in told if text not in usual}
    known = json.loads(meta.read_text())
    statuses = known["exit_code_by_key"]
    for name, status in statuses.items():
        if status in OPEN and name.rpartition(".")[2] in wrong:
            statuses[name] = WRONG_TYPES
    meta.write_text(json.dumps(known, indent=4))


def try_all(folder: Path, module: str) -> bool:
    """Whether the tests pass without a mutation."""
    mutants = folder / "mutants"
    paths = os.pathsep.join(map(str, (SITE, mutants / "src", mutants)))
    marked = QUICK if module.startswith("engine") else MARKED
    words = ("-m", "tests.mutants.trial", *OPTIONS, "-m", marked, *tests_of(module))
    return python(mutants, *words, PYTHONPATH=paths).returncode == 0


def outcomes(folder: Path) -> dict[str, int | None]:
    """The exit status of the tests, by the name of the mutation."""
    found: dict[str, int | None] = {}
    for path in (folder / "mutants").rglob("*.meta"):
        found |= json.loads(path.read_text())["exit_code_by_key"]
    return found


def survivors(folder: Path, names: list[str]) -> list[Survivor]:
    if not names:
        return []
    shown = python(folder, "-c", SHOW, *names)
    shown.check_returncode()
    return [_survivor(*each.split("\n", 1)) for each in shown.stdout.split("@@ agentforge.")[1:]]


def _survivor(name: str, diff: str) -> Survivor:
    lines = [line for line in diff.splitlines() if line[:1] in ("-", "+") and line[:3] not in ("---", "+++")]
    removed, added = ("\n".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return Survivor(name, removed, added)


def changes_a_message(found: Survivor) -> bool:
    """Whether only the text of a string differs that people read: one with a space."""
    texts = re.findall(r'"([^"]*)"', found.removed)
    frames = (re.sub(r'"[^"]*"', '""', side) for side in (found.removed, found.added))
    return any(" " in text for text in texts) and len(set(frames)) == 1


IMPOSSIBLE = re.compile(r"(case _:\n)?assert_never\([\w.]+\)|case _:\npass")
ENCODING = re.compile("utf-8|ascii", re.IGNORECASE)


def reason(found: Survivor) -> str:
    """Why it doesn't count; empty if it does."""
    if changes_a_message(found):
        return "the words of a message"
    if IMPOSSIBLE.fullmatch(found.removed):
        return "mypy proves that no other case is possible"
    if ENCODING.sub("", found.removed) == ENCODING.sub("", found.added):
        return "the case of the name of an encoding"
    return SURVIVORS.get(found.place, {}).get(found.added, "")


def report(folder: Path, module: str) -> bool:
    """Print what wasn't caught. Whether enough was."""
    results = outcomes(folder)
    rejected = sum(status == WRONG_TYPES for status in results.values())
    missing = [
        name for name, status in sorted(results.items()) if status not in (CAUGHT, TOO_LONG, WRONG_TYPES)
    ]
    counted = [found for found in survivors(folder, missing) if not reason(found)]
    for found in counted:
        say(f"\n{found.place}\n- {found.removed}\n+ {found.added}")
    total = len(results) - rejected - len(missing) + len(counted)
    caught = 1 - len(counted) / max(total, 1)
    target = TARGETS.get(module.partition("/")[0], TARGET)
    say(
        f"{module}: {caught:.1%} of {total} caught (target {target:.0%});"
        f" {rejected} have wrong types, {len(missing) - len(counted)} don't count"
    )
    return caught >= target


if __name__ == "__main__":
    enough = True
    for name in sys.argv[1:] or MODULES:
        copied = project(name)
        generate(copied)
        reject_wrong_types(copied, name)
        if not try_all(copied, name):
            sys.exit(f"{name}: its tests fail without a mutation")
        enough &= report(copied, name)
    sys.exit(not enough)
