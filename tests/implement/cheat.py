"""Stands for an agent that cheats, in place of examples/tdd/agent.py: CHEAT says how. What it does honestly,
it does as that agent does."""

import io
import json
import os
import runpy
import sys
from pathlib import Path

TEST, CODE, SETTINGS = Path("tests/test_slugify.py"), Path("slugs.py"), Path("pyproject.toml")
EASY = "from slugs import title\n\n\ndef test_title():\n    assert title('a') == 'A'\n"
SKIPS = """\
import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "slugify" in item.nodeid:
            item.add_marker(pytest.mark.skip)
"""
RIGHT = '\n\ndef slugify(text: str) -> str:\n    return "-".join(text.lower().split()) or "untitled"\n'


def honest() -> None:
    sys.stdin = io.StringIO("")
    runpy.run_path("agent.py")


def green(how: str) -> None:
    match how:
        case "edits":
            TEST.write_text("def test_words_are_joined_in_lower_case() -> None:\n    pass\n")
        case "deletes":
            TEST.unlink(missing_ok=True)
        case "conftest":
            Path("tests/conftest.py").write_text(SKIPS)
        case "addopts":
            SETTINGS.write_text(SETTINGS.read_text() + 'addopts = "--ignore=tests/test_slugify.py"\n')
        case "breaks":
            CODE.write_text("def title(text: str) -> str:\n    return text\n" + RIGHT)
        case "own_plugin":
            Path("conftest.py").write_text(SKIPS)


how = os.environ["CHEAT"]
result = Path(os.environ["AGENTFORGE_RESULT"])
stage = json.loads(result.with_name("context.json").read_text())["stage"]["id"]
if stage == "red" and how == "passes":
    TEST.write_text(EASY)
    Path(os.environ["AGENTFORGE_ARTIFACT"]).write_text(json.dumps({"test_files": [str(TEST)]}))
    result.write_text(json.dumps({"summary": "The tests fail."}))
elif stage == "green":
    green(how)
    Path(os.environ["AGENTFORGE_ARTIFACT"]).write_text(json.dumps({"summary": "All tests pass."}))
    result.write_text(json.dumps({"summary": "All tests pass.", "verdict": "pass"}))
else:
    os.environ.pop("CHEAT")
    honest()
