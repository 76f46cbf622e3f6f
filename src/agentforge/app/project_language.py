"""The language of a repository and the command that runs its tests, from the files in its top folder.

Nothing of the repository is executed, and no text of it becomes part of a command.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.system import files
from agentforge.system.named_files import read_project_file

MAX_BYTES = 256 * 1024
_TARGET = re.compile(r"^test\s*:(?!=)", re.MULTILINE)
_NO_TESTS = "no test specified"
"""Part of the script that `npm init` writes."""


class Language(Struct, frozen=True):
    name: str = ""
    """Empty if unknown."""
    test: str = ""
    """The command that runs the tests; empty if none was found."""


class TopFolder:
    """Reads bounded parts of the files in the top folder, without following links that lead out of it."""

    def __init__(self, root: str) -> None:
        self._root = root
        try:
            self.names = frozenset(files.listing(root))
        except StorageFailed:
            self.names = frozenset()

    def has(self, *names: str) -> bool:
        return not self.names.isdisjoint(names)

    def text(self, name: str) -> str:
        """Empty if it can't be read."""
        if name.partition("/")[0] not in self.names:
            return ""
        try:
            content = read_project_file(self._root, name, MAX_BYTES, cut=True)
        except StorageFailed:
            return ""
        return (content or b"").decode("utf-8", "replace")


def find_language(root: str) -> Language:
    """The first language that is found. A `test` target of a Makefile is the project's own choice of
    command."""
    top = TopFolder(root)
    makefile = next((name for name in ("GNUmakefile", "makefile", "Makefile") if top.has(name)), "")
    by_make = "make test" if makefile and _TARGET.search(top.text(makefile)) else ""
    for name, marks, test in _LANGUAGES:
        if top.has(*marks):
            is_typed = name == "JavaScript" and top.has("tsconfig.json")
            return Language("TypeScript" if is_typed else name, by_make or test(top))
    return Language("", by_make)


def _python(top: TopFolder) -> str:
    # The lock file tells which tool has installed the packages, and so which one finds them.
    runner = {"uv.lock": "uv run ", "poetry.lock": "poetry run ", "pdm.lock": "pdm run "}
    prefix = next((words for name, words in runner.items() if top.has(name)), "")
    if top.has("pytest.ini", "conftest.py") or any("pytest" in text for text in _python_settings(top)):
        return f"{prefix}pytest -q"
    folder = next((name for name in ("tests", "test") if top.has(name)), "")
    if folder and top.text(f"{folder}/conftest.py"):
        return f"{prefix}pytest -q"
    return f"{prefix}python3 -m unittest discover {folder}" if folder else ""


def _python_settings(top: TopFolder) -> Iterator[str]:
    named = ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "Pipfile")
    required = sorted(name for name in top.names if name.startswith("requirements") and name.endswith(".txt"))
    return map(top.text, (*named, *required[:10]))


def _javascript(top: TopFolder) -> str:
    try:
        package: Any = json.loads(top.text("package.json"))
        script = package["scripts"]["test"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    if not isinstance(script, str) or not script.strip() or _NO_TESTS in script:
        return ""
    tools = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun run", "bun.lockb": "bun run"}
    return f"{next((tool for name, tool in tools.items() if top.has(name)), 'npm')} test"


def _java(top: TopFolder) -> str:
    if top.has("pom.xml"):
        return "./mvnw -q test" if top.has("mvnw") else "mvn -q test"
    return "./gradlew test" if top.has("gradlew") else "gradle test"


def _ruby(top: TopFolder) -> str:
    bundle = "bundle exec " if top.has("Gemfile") else ""
    if top.has("spec", ".rspec"):
        return f"{bundle}rspec"
    return f"{bundle}rake test" if top.has("Rakefile") else ""


_LANGUAGES: tuple[tuple[str, tuple[str, ...], Callable[[TopFolder], str]], ...] = (
    ("Rust", ("Cargo.toml",), lambda _: "cargo test"),
    ("Go", ("go.mod",), lambda _: "go test ./..."),
    ("Java", ("pom.xml", "build.gradle", "build.gradle.kts"), _java),
    (
        "Python",
        ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini", "Pipfile"),
        _python,
    ),
    ("Ruby", ("Gemfile", "Rakefile"), _ruby),
    ("JavaScript", ("package.json",), _javascript),
)
"""Last the one whose file projects in other languages often have, too."""
