"""What decides how pytest runs a test file, and whether it changed."""

import tomllib

import pytest

from agentforge.engine.pytest_settings import digest_of_settings, guards_of, is_in_part, with_settings

TABLE = b'[tool.pytest.ini_options]\naddopts = "-q"\n'
PROJECT = b'[project]\nname = "a"\n\n'


def test_settings_are_looked_for_in_all_folders_above_a_test() -> None:
    found = guards_of(["a/b/test_c.py", "web/test.js"])
    assert {path for path in found if path.endswith("conftest.py")} == {
        "conftest.py",
        "a/conftest.py",
        "a/b/conftest.py",
    }
    assert {"pytest.ini", "a/.pytest.ini", "a/b/pytest.toml", "tox.ini", "a/setup.cfg"} <= set(found)
    assert guards_of(["web/test.js"]) == ()


@pytest.mark.parametrize(
    ("path", "content", "has"),
    [
        ("pyproject.toml", PROJECT, False),
        ("pyproject.toml", PROJECT + TABLE, True),
        ("a/pyproject.toml", b"tool = 1", False),
        ("pyproject.toml", b"[tool.pytest-watcher]\nnow = 2026-01-15\n", True),
        ("pyproject.toml", b"[tool", True),
        ("pyproject.toml", b"\xff", True),
        ("tox.ini", b"[tox]\nenvlist = py\n", False),
        ("tox.ini", b"[pytest]\n", True),
        ("setup.cfg", b"[pytest]\naddopts = -x\n", False),
        ("setup.cfg", b"[tool:pytest]\naddopts = -x\n", True),
        ("setup.cfg", b"addopts", True),
        ("conftest.py", b"", True),
        ("sub/pytest.ini", b"", True),
    ],
)
def test_a_file_counts_if_it_has_settings(path: str, content: bytes, has: bool) -> None:
    assert (digest_of_settings(path, content) != "") == has


def test_only_a_part_of_pyproject_counts() -> None:
    assert is_in_part("a/pyproject.toml")
    assert not is_in_part("setup.cfg")
    same = b'[tool.pytest]\nini_options = {addopts = "-q"}\n[project]\nname = "b"\n'
    assert digest_of_settings("pyproject.toml", same) == digest_of_settings("pyproject.toml", PROJECT + TABLE)


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        (
            PROJECT + b'[tool.pytest.ini_options]\naddopts = "-x"\n[tool.ruff]\nline-length = 9 # long\n',
            PROJECT + b"[tool.ruff]\nline-length = 9 # long\n\n" + TABLE,
        ),
        (b'[project]\nname = "b"\n', b'[project]\nname = "b"\n\n' + TABLE),
        (b"[tool.'pytest'.ini_options]\nx = 1\n", TABLE),
        # What can't be told apart line by line is written as it was.
        (b'[tool]\npytest.ini_options.addopts = "-x"\n', PROJECT + TABLE),
        (b'[project]\nname = """\n[tool.pytest]\n"""\n', PROJECT + TABLE),
        (b"[tool", PROJECT + TABLE),
        (b"\xff", PROJECT + TABLE),
    ],
)
def test_the_tables_are_put_back_and_the_rest_stays(current: bytes, expected: bytes) -> None:
    found = with_settings(current, PROJECT + TABLE)
    assert found == expected
    assert tomllib.loads(found.decode())["tool"]["pytest"] == {"ini_options": {"addopts": "-q"}}


def test_added_tables_are_removed() -> None:
    assert with_settings(PROJECT + TABLE, PROJECT) == PROJECT.rstrip() + b"\n"
