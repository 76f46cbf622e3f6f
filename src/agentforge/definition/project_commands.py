"""The language of a repository and the commands that run its tests and its linter, from the files in its top
folder.

Nothing of the repository is executed, and no text of it becomes part of a command.
"""

import json
import re
from collections.abc import Callable, Iterator
from posixpath import join
from typing import Any

from msgspec import Struct

from agentforge.model.check import OWN_REPORT, CheckParser
from agentforge.model.errors import StorageFailed
from agentforge.ports.sources import Sources

MAX_CHARS = 256 * 1024
_TARGET = re.compile(r"^(test|lint)\s*:(?!=)", re.MULTILINE)
_NO_TESTS = "no test specified"
"""Part of the script that `npm init` writes."""
_PYTHON_TEST = re.compile(r"(?:^|/)test[^/]*\.py$")
_FOR_PYTEST = re.compile(r"^(?:import pytest|from pytest|(?:async )?def test)", re.MULTILINE)
MAX_TESTS = 10
"""Files that are read to find out what runs them."""
TEST, LINT = "test", "lint"


class Language(Struct, frozen=True):
    name: str = ""
    """Empty if unknown."""
    test: str = ""
    """The command that runs the tests; empty if none was found."""
    lint: str = ""
    """The command that runs the linter; empty if none was found."""

    @property
    def commands(self) -> dict[str, str]:
        """Those that were found, by the names of their checks."""
        return {name: run for name, run in ((TEST, self.test), (LINT, self.lint)) if run}


class TopFolder:
    """Reads bounded parts of the files in the top folder."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        try:
            self.names = frozenset(sources.listing(sources.project))
        except StorageFailed:
            self.names = frozenset()

    def has(self, *names: str) -> bool:
        return not self.names.isdisjoint(names)

    def below(self, folder: str) -> list[str]:
        """The paths of what is in a folder; empty: in this one."""
        if not folder:
            return sorted(self.names)
        try:
            return [join(folder, name) for name in self._sources.listing(join(self._sources.project, folder))]
        except StorageFailed:
            return []

    def text(self, name: str) -> str:
        """Empty if it can't be read."""
        if name.partition("/")[0] not in self.names:
            return ""
        try:
            return (self._sources.read(join(self._sources.project, name)) or "")[:MAX_CHARS]
        except StorageFailed:
            return ""


def find_language(sources: Sources) -> Language:
    """The first language that is found. Targets of a Makefile are the project's own choice of commands."""
    top = TopFolder(sources)
    makefile = next((name for name in ("GNUmakefile", "makefile", "Makefile") if top.has(name)), "")
    targets = set(_TARGET.findall(top.text(makefile))) if makefile else set()
    test, lint = (f"make {name}" if name in targets else "" for name in (TEST, LINT))
    for language, marks, find_test, find_lint in _LANGUAGES:
        if top.has(*marks):
            is_typed = language == "JavaScript" and top.has("tsconfig.json")
            name = "TypeScript" if is_typed else language
            return Language(name, test or find_test(top), lint or find_lint(top))
    if any(name.endswith(".py") for name in top.names):
        return Language("Python", test or _python(top), lint or _python_lint(top))
    return Language("", test, lint)


_RUNNERS = re.compile(r"^(?:(?:uv|poetry|pdm) run|bundle exec|npx|python3? -m)\s+")
_PARSERS: tuple[tuple[str, CheckParser], ...] = (
    (r"pytest(?! (?:.* )?-[a-zA-Z]*qq)", "pytest"),
    (r"flake8|pyflakes|pylint|mypy|golangci-lint|go vet", "lines"),
    (r"ruff check .*--output-format[ =]concise", "lines"),
    (r"cargo clippy .*--message-format[ =]short", "lines"),
    (r"rubocop .*--format[ =]emacs", "lines"),
)
"""By what the commands begin with."""


def parser_of(command: str) -> CheckParser:
    """How to read the output of a command that a project has for its tests or its linter."""
    line = command.strip()
    if re.search(r"[;|&<>\n]", line):
        return "exit"
    for _ in range(2):  # As in `uv run python -m pytest`.
        line = _RUNNERS.sub("", line)
    found = (parse for words, parse in _PARSERS if re.match(rf"(?:{words})(?:\s|$)", line))
    return next(found, "exit")


def first_tests(sources: Sources) -> str:
    """What will run the tests of a project that has none yet; empty if its language has no usual way."""
    top = TopFolder(sources)
    match find_language(sources).name:
        case "Python":
            return f"{_python_runner(top)}pytest -q"
        case "JavaScript":
            return "node --test"
        case _:
            return ""


_NODE_RUNNER = re.compile(r"node --test(?!\S)")
# The report doesn't say why a file can't be run; what the other reporter prints does.
_NODE_REPORT = (
    'NODE_OPTIONS="--test-reporter=spec --test-reporter-destination=stdout'
    f' --test-reporter=junit --test-reporter-destination=\\"${OWN_REPORT}\\""'
)


def reporting(command: str, sources: Sources) -> str:
    """The command so that it leaves a JUnit report at `OWN_REPORT`; empty if it can't be told how."""
    line = command.strip()
    if OWN_REPORT in line:
        return line
    if re.search(r"[;|&<>\n]", line):
        return ""
    bare = line
    for _ in range(2):
        bare = _RUNNERS.sub("", bare)
    if re.match(r"pytest(?:\s|$)", bare):
        return f'{line} --junitxml="${OWN_REPORT}"'
    script = _script(TopFolder(sources), TEST) if re.fullmatch(r"(?:npm|pnpm|yarn) test", line) else line
    if _NODE_RUNNER.match(script) and "--test-reporter" not in script:
        # As an environment variable: arguments behind a path would be those of the test.
        return f"{_NODE_REPORT} {line}"
    return ""


def _python(top: TopFolder) -> str:
    prefix = _python_runner(top)
    if top.has("pytest.ini", "conftest.py") or any("pytest" in text for text in _python_settings(top)):
        return f"{prefix}pytest -q"
    folder = next((name for name in ("tests", "test") if top.has(name)), "")
    tests = [path for path in top.below(folder) if _PYTHON_TEST.search(path)][:MAX_TESTS]
    # Functions that only pytest finds would pass under unittest, which finds no test.
    if (folder and top.text(f"{folder}/conftest.py")) or any(
        _FOR_PYTEST.search(top.text(one)) for one in tests
    ):
        return f"{prefix}pytest -q"
    if folder:
        return f"{prefix}python3 -m unittest discover {folder}"
    return f"{prefix}python3 -m unittest" if tests else ""


def _python_lint(top: TopFolder) -> str:
    prefix = _python_runner(top)
    if top.has("ruff.toml", ".ruff.toml") or "[tool.ruff" in top.text("pyproject.toml"):
        return f"{prefix}ruff check --output-format concise ."
    is_flake8 = top.has(".flake8") or any("[flake8]" in top.text(name) for name in ("setup.cfg", "tox.ini"))
    return f"{prefix}flake8" if is_flake8 else ""


def _python_runner(top: TopFolder) -> str:
    # The lock file tells which tool has installed the packages, and so which one finds them.
    runner = {"uv.lock": "uv run ", "poetry.lock": "poetry run ", "pdm.lock": "pdm run "}
    return next((words for name, words in runner.items() if top.has(name)), "")


def _python_settings(top: TopFolder) -> Iterator[str]:
    named = ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "Pipfile")
    required = sorted(name for name in top.names if name.startswith("requirements") and name.endswith(".txt"))
    return map(top.text, (*named, *required[:10]))


def _javascript(top: TopFolder) -> str:
    script = _script(top, TEST)
    return f"{_packager(top)} test" if script and _NO_TESTS not in script else ""


def _javascript_lint(top: TopFolder) -> str:
    if _script(top, LINT):
        # The others take the name of any script as a command.
        tool = _packager(top)
        return f"{tool} {'run ' if tool == 'npm' else ''}{LINT}"
    is_eslint = any(name.startswith((".eslintrc", "eslint.config.")) for name in top.names)
    return "npx --no-install eslint ." if is_eslint else ""


def _script(top: TopFolder, name: str) -> str:
    try:
        package: Any = json.loads(top.text("package.json"))
        script = package["scripts"][name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return script.strip() if isinstance(script, str) else ""


def _packager(top: TopFolder) -> str:
    tools = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun run", "bun.lockb": "bun run"}
    return next((tool for name, tool in tools.items() if top.has(name)), "npm")


def _java(top: TopFolder) -> str:
    if top.has("pom.xml"):
        return "./mvnw -q test" if top.has("mvnw") else "mvn -q test"
    return "./gradlew test" if top.has("gradlew") else "gradle test"


def _ruby(top: TopFolder) -> str:
    bundle = "bundle exec " if top.has("Gemfile") else ""
    if top.has("spec", ".rspec"):
        return f"{bundle}rspec"
    return f"{bundle}rake test" if top.has("Rakefile") else ""


def _ruby_lint(top: TopFolder) -> str:
    bundle = "bundle exec " if top.has("Gemfile") else ""
    return f"{bundle}rubocop --format emacs" if top.has(".rubocop.yml") else ""


def _go_lint(top: TopFolder) -> str:
    is_set_up = top.has(".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json")
    return "golangci-lint run" if is_set_up else "go vet ./..."


FindCommand = Callable[[TopFolder], str]
_LANGUAGES: tuple[tuple[str, tuple[str, ...], FindCommand, FindCommand], ...] = (
    (
        "Rust",
        ("Cargo.toml",),
        lambda _: "cargo test",
        lambda _: "cargo clippy --quiet --message-format short -- -D warnings",
    ),
    ("Go", ("go.mod",), lambda _: "go test ./...", _go_lint),
    ("Java", ("pom.xml", "build.gradle", "build.gradle.kts"), _java, lambda _: ""),
    (
        "Python",
        ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini", "Pipfile"),
        _python,
        _python_lint,
    ),
    ("Ruby", ("Gemfile", "Rakefile"), _ruby, _ruby_lint),
    ("JavaScript", ("package.json",), _javascript, _javascript_lint),
)
"""By name: the files that tell the language, and what finds its commands. Last the one whose file projects in
other languages often have, too."""
