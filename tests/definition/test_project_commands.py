"""The test and lint commands of a repository, and the checks that use them."""

from collections.abc import Sequence

import pytest

from agentforge.definition.project_commands import (
    Language,
    find_language,
    first_tests,
    parser_of,
    reporting,
)
from agentforge.model.check import Check
from agentforge.model.errors import StorageFailed

from .world import TextWorld, found, only_node, where

PYTEST = "[dependency-groups]\ndev = ['pytest']\n"
NPM = '{"scripts": {"test": "vitest run", "lint": "eslint ."}}'
NODE = (
    'NODE_OPTIONS="--test-reporter=spec --test-reporter-destination=stdout'
    ' --test-reporter=junit --test-reporter-destination=\\"$AGENTFORGE_REPORT\\""'
)
CLIPPY = "cargo clippy --quiet --message-format short -- -D warnings"
RUFF = "ruff check --output-format concise ."


@pytest.mark.parametrize(
    ("files", "language", "test", "lint"),
    [
        ({}, "", "", ""),
        ({"a.txt": ""}, "", "", ""),
        ({"pyproject.toml": PYTEST}, "Python", "pytest -q", ""),
        (
            {"pyproject.toml": PYTEST + "[tool.ruff]\n", "uv.lock": ""},
            "Python",
            "uv run pytest -q",
            f"uv run {RUFF}",
        ),
        ({"setup.py": "", "conftest.py": "", "ruff.toml": ""}, "Python", "pytest -q", RUFF),
        ({"setup.py": "", "tests/conftest.py": "#", ".flake8": ""}, "Python", "pytest -q", "flake8"),
        (
            {"setup.py": "", "test/a.py": "", "tox.ini": "[flake8]\n"},
            "Python",
            "python3 -m unittest discover test",
            "flake8",
        ),
        ({"requirements.txt": "x", "requirements-dev.txt": "pytest\n"}, "Python", "pytest -q", ""),
        (
            {"setup.py": "", "tests/test_a.py": "from a import b\n\n\ndef test_b():\n    assert b\n"},
            "Python",
            "pytest -q",
            "",
        ),
        ({"a.py": "", "tests/test_a.py": "import a\n"}, "Python", "python3 -m unittest discover tests", ""),
        ({"a.py": "", "test_a.py": "import a\n"}, "Python", "python3 -m unittest", ""),
        ({"a.py": "", "ruff.toml": ""}, "Python", "", RUFF),
        ({"setup.py": ""}, "Python", "", ""),
        ({"package.json": NPM}, "JavaScript", "npm test", "npm run lint"),
        (
            {"package.json": NPM, "tsconfig.json": "{}", "yarn.lock": ""},
            "TypeScript",
            "yarn test",
            "yarn lint",
        ),
        (
            {"package.json": "{}", "eslint.config.mjs": ""},
            "JavaScript",
            "",
            "npx --no-install eslint .",
        ),
        ({"package.json": '{"scripts": {"test": "echo no test specified"}}'}, "JavaScript", "", ""),
        ({"package.json": '{"scripts": {"test": [1]}}'}, "JavaScript", "", ""),
        ({"package.json": "[" * 9999}, "JavaScript", "", ""),
        ({"go.mod": ""}, "Go", "go test ./...", "go vet ./..."),
        ({"go.mod": "", ".golangci.yml": ""}, "Go", "go test ./...", "golangci-lint run"),
        ({"Cargo.toml": ""}, "Rust", "cargo test", CLIPPY),
        ({"pom.xml": ""}, "Java", "mvn -q test", ""),
        ({"pom.xml": "", "mvnw": ""}, "Java", "./mvnw -q test", ""),
        ({"build.gradle": ""}, "Java", "gradle test", ""),
        ({"build.gradle.kts": "", "gradlew": ""}, "Java", "./gradlew test", ""),
        (
            {"Gemfile": "", "spec/a.rb": "", ".rubocop.yml": ""},
            "Ruby",
            "bundle exec rspec",
            "bundle exec rubocop --format emacs",
        ),
        ({"Rakefile": ""}, "Ruby", "rake test", ""),
        ({"Gemfile": ""}, "Ruby", "", ""),
        ({"Makefile": "all:\ntest: all\nlint:\n"}, "", "make test", "make lint"),
        ({"Makefile": "lint :\ntest := 1\n", "go.mod": ""}, "Go", "go test ./...", "make lint"),
    ],
)
def test_what_is_detected(files: dict[str, str], language: str, test: str, lint: str) -> None:
    assert find_language(TextWorld(files)) == Language(language, test, lint)


def test_folders_and_files_that_cannot_be_read_are_passed_over() -> None:
    class Closed(TextWorld):
        def listing(self, path: str) -> Sequence[str]:
            if not self.files or path.endswith("/tests"):
                raise StorageFailed("too many")
            return super().listing(path)

        def read(self, path: str) -> str | None:
            raise StorageFailed("closed")

    assert find_language(Closed({})).commands == {}
    assert find_language(Closed({"package.json": NPM})) == Language("JavaScript")
    unread = find_language(Closed({"setup.py": "", "tests/test_a.py": "def test_a(): ..."}))
    assert unread.test == "python3 -m unittest discover tests"


@pytest.mark.parametrize(
    ("command", "parser"),
    [
        ("pytest", "pytest"),
        ("pytest -q tests", "pytest"),
        ("uv run pytest -q", "pytest"),
        ("poetry run python -m pytest", "pytest"),
        ("pytest -qq", "exit"),
        ("pytest --pdb -vqq", "exit"),
        ("pytest-watch", "exit"),
        ("pytest | tail", "exit"),
        ("cd x && pytest", "exit"),
        ("make test", "exit"),
        (RUFF, "lines"),
        ("ruff check .", "exit"),
        ("flake8", "lines"),
        ("python3 -m mypy src", "lines"),
        ("go vet ./...", "lines"),
        ("golangci-lint run", "lines"),
        (CLIPPY, "lines"),
        ("bundle exec rubocop --format emacs", "lines"),
        ("npm test", "exit"),
        ("", "exit"),
    ],
)
def test_the_parser_of_a_command(command: str, parser: str) -> None:
    assert parser_of(command) == parser


@pytest.mark.parametrize(
    ("command", "reports"),
    [
        ("pytest -qq", 'pytest -qq --junitxml="$AGENTFORGE_REPORT"'),
        ("uv run python -m pytest", 'uv run python -m pytest --junitxml="$AGENTFORGE_REPORT"'),
        ("npm test", f"{NODE} npm test"),
        ("node --test tests", f"{NODE} node --test tests"),
        ("node --test --test-reporter=tap", ""),
        ("node --tester", ""),
        ("yarn jest", ""),
        ("make test OUT=$AGENTFORGE_REPORT", "make test OUT=$AGENTFORGE_REPORT"),
        ("pytest | tail", ""),
        ("pytest-watch", ""),
        ("", ""),
    ],
)
def test_the_command_that_leaves_a_report(command: str, reports: str) -> None:
    assert reporting(command, TextWorld({"package.json": '{"scripts": {"test": "node --test"}}'})) == reports


def test_a_script_with_another_runner_leaves_no_report() -> None:
    assert reporting("npm test", TextWorld({"package.json": NPM})) == ""


@pytest.mark.parametrize(
    ("files", "check"),
    [
        ({"setup.py": ""}, Check("test", 'pytest -q --junitxml="$AGENTFORGE_REPORT"', parse="junit")),
        ({"package.json": "{}"}, Check("test", f"{NODE} node --test", parse="junit")),
        ({"a.py": "", "tests/a.py": ""}, Check("test", "python3 -m unittest discover tests")),
        ({"go.mod": ""}, Check("test", "go test ./...")),
    ],
)
def test_the_command_decides_how_its_output_is_read(files: dict[str, str], check: Check) -> None:
    (found,) = only_node("nodes: [{id: n, stage: s, checks: [{name: test, parse: auto}]}]", files).checks
    assert found == check


def test_a_command_line_of_a_check_may_decide_too() -> None:
    line = "checks: [{name: unit, run: pytest tests/unit, parse: auto, report: r.xml}]"
    (check,) = only_node(f"nodes: [{{id: n, stage: s, {line}}}]").checks
    assert check == Check("unit", 'pytest tests/unit --junitxml="$AGENTFORGE_REPORT"', parse="junit")


def test_nothing_is_known_of_the_tests_of_an_unknown_language() -> None:
    assert first_tests(TextWorld({"main.c": ""})) == ""


CHECKS = "checks: [test, {name: lint, parse: exit}, {name: other, run: 'true'}]"
PYTHON = {"pyproject.toml": PYTEST + "[tool.ruff]\n"}
OWN = ".agentforge/config/settings.yaml"


def checks(commands: str = "", files: dict[str, str] | None = None) -> dict[str, Check]:
    node = only_node(f"{commands}nodes: [{{id: n, stage: s, {CHECKS}}}]\n", {**PYTHON, **(files or {})})
    return {check.name: check for check in node.checks}


def test_a_check_without_a_command_runs_that_of_the_project() -> None:
    assert checks() == {
        "test": Check("test", "pytest -q", parse="pytest"),
        "lint": Check("lint", RUFF),
        "other": Check("other", "true"),
    }


def test_the_commands_of_settings_come_before_those_of_the_project() -> None:
    found = checks("", {OWN: "commands: {test: pytest tests/fast}\n"})
    assert found["test"] == Check("test", "pytest tests/fast", parse="pytest")
    assert found["lint"].run == RUFF


def test_the_commands_of_the_pipeline_come_first_and_are_read_as_it_says() -> None:
    found = checks("commands: {test: pytest tests/all}\n", {OWN: "commands: {test: pytest tests/fast}\n"})
    assert found["test"] == Check("test", "pytest tests/all")


def test_agents_are_told_the_command_that_a_check_found() -> None:
    assert only_node("nodes: [{id: n, stage: s, checks: [test]}]", PYTHON).commands == {"test": "pytest -q"}
    assert only_node("nodes: [{id: n, stage: s}]", PYTHON).commands == {}


def test_a_check_that_no_one_has_a_command_for() -> None:
    (missing,) = found("nodes: [{id: n, stage: s, checks: [{name: e2e}]}]", PYTHON)
    assert where(missing) == "missing-key 1:43"
