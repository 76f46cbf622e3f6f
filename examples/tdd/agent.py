"""Stands for an agent: what it does depends on the stage, and on what is there already. Its first test passes
at once, and its first slugify keeps capitals. With CHEAT=1, it changes the test in place of the code."""

import json
import os
import sys
from pathlib import Path
from typing import Any

CODE, TESTS = Path("slugs.py"), Path("tests/test_slugify.py")
TEST = """\
from slugs import slugify


def test_words_are_joined_in_lower_case() -> None:
    assert slugify("Plum Cake") == "plum-cake"


def test_an_empty_text_has_a_slug() -> None:
    assert slugify("") == "untitled"
"""
TOO_EASY = """\
from slugs import title


def test_there_is_a_title() -> None:
    assert title("a") == "A"
"""
SLUGIFY = '\n\ndef slugify(text: str) -> str:\n    return "-".join(text.split()) or "untitled"\n'


def recorded() -> dict[str, Any]:
    return {"verdict": "clear", "detected_scope": "feature_addition", "priority": "medium"}


def analyzed() -> dict[str, Any]:
    return {
        "analysis": {"summary": "slugs.py has a function for titles; slugify goes beside it."},
        "affected_files": [{"path": "slugs.py", "change_type": "modify"}],
        "components": [{"name": "slugify", "type": "function", "files": ["slugs.py"]}],
    }


def specified() -> dict[str, Any]:
    return {
        "title": "Add slugify",
        "components": [{"name": "slugify", "type": "function", "file_path": "slugs.py"}],
        "test_cases": [
            {"id": "TC001", "given": "Plum Cake", "when": "slugify", "then": "plum-cake"},
            {"id": "TC002", "given": "an empty text", "when": "slugify", "then": "untitled"},
        ],
        "acceptance_criteria": ["slugify is in slugs.py"],
    }


def tested() -> dict[str, Any]:
    TESTS.write_text(TEST if TESTS.exists() else TOO_EASY)
    return {"test_files": [str(TESTS)]}


def implemented() -> dict[str, Any]:
    code = CODE.read_text()
    if "slugify" not in code:
        CODE.write_text(code + SLUGIFY)
    elif os.environ.get("CHEAT"):
        TESTS.write_text(TESTS.read_text().replace('"plum-cake"', '"Plum-Cake"'))
    else:
        CODE.write_text(code.replace("text.split()", "text.lower().split()"))
    return {"summary": "slugify joins the words"}


def refactored() -> dict[str, Any]:
    code, quotes = CODE.read_text(), '"' * 3
    line = "def slugify(text: str) -> str:\n"
    CODE.write_text(code.replace(line, f"{line}    {quotes}The text as a part of an address.{quotes}\n"))
    return {"improvements": [{"type": "documentation", "description": "slugify has a docstring"}]}


ACTS = {
    "intake": recorded,
    "analyze": analyzed,
    "spec": specified,
    "red": tested,
    "green": implemented,
    "refactor": refactored,
}
sys.stdin.read()
result_file = Path(os.environ["AGENTFORGE_RESULT"])
stage = json.loads(result_file.with_name("context.json").read_text())["stage"]["id"]
artifact = ACTS[stage]()
Path(os.environ["AGENTFORGE_ARTIFACT"]).write_text(json.dumps(artifact))
result_file.write_text(json.dumps({"summary": artifact.get("summary", "done"), "decision": "continue"}))
