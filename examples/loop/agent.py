"""Stands for an agent: what it does depends on the stage, the step and what is there already. Its first
slugify keeps capitals, and then forgets that a text may be empty."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

CODE, TESTS = Path("slugs.py"), Path("tests/test_slugify.py")
SLUGIFY = '\n\ndef slugify(text: str) -> str:\n    return "-".join(text.split())\n'
TEST = """\
import unittest

from slugs import slugify


class SlugifyTest(unittest.TestCase):
    def test_words_are_joined_in_lower_case(self) -> None:
        assert slugify("Plum Cake") == "plum-cake"
"""
EMPTY_TEST = """
    def test_an_empty_text_has_a_slug(self) -> None:
        assert slugify("") == "untitled"
"""
STEPS = [
    {
        "id": "s1",
        "title": "Write slugify",
        "action": "Add slugify to slugs.py.",
        "criteria": [{"file": {"path": "slugs.py", "contains": "def slugify"}}],
    },
    {
        "id": "s2",
        "title": "Test slugify",
        "action": "Add tests for slugify.",
        "criteria": ["A capital letter is tested."],
        "after": ["s1"],
    },
]
EMPTY_STEP = {
    "id": "s3",
    "title": "Handle an empty text",
    "action": "Give an empty text a slug, with a test.",
    "criteria": [{"command": "test"}],
    "after": ["s2"],
}
DIMENSIONS = ("intent_alignment", "code_quality", "completeness", "consistency", "safety")


def planned(context: dict[str, Any]) -> dict[str, Any]:
    plan: dict[str, Any] = {"goal": "slugs.py has a tested slugify", "steps": STEPS}
    if context.get("previous"):
        plan |= {"steps": [*STEPS, EMPTY_STEP], "changes": ["s3 is new: an empty text has no slug"]}
    return plan


def executed(item: str) -> dict[str, Any]:
    if item == os.environ.get("SLOW"):
        time.sleep(4)
    code = CODE.read_text()
    if item == "s1":
        done = "wrote slugify"
        CODE.write_text(code if "slugify" in code else code + SLUGIFY)
    elif item == "s2":
        done = "tested slugify"
        TESTS.write_text(TEST)
    elif item == "s3":
        done = "gave an empty text a slug"
        CODE.write_text(code.replace("text.lower().split())", 'text.lower().split()) or "untitled"'))
        TESTS.write_text(TEST + EMPTY_TEST)
    else:
        done = "made the slug lower-case, as the failing test asks"
        CODE.write_text(code.replace('"-".join(text.split())', '"-".join(text.lower().split())'))
    return {"verdict": "pass", "summary": done}


def verified() -> dict[str, Any]:
    checks = [{"name": "a capital letter is tested", "status": "pass", "step": "s2"}]
    return {"verdict": "pass", "checks": checks}


def reviewed() -> dict[str, Any]:
    is_right = "untitled" in CODE.read_text()
    issue = "slugify of an empty text is empty: such a page has no address"
    review = {
        "verdict": "pass" if is_right else "reject",
        "summary": "adds slugify with tests",
        "tried": ["several spaces: joined by one dash", "an empty text"],
        "dimensions": {name: {"level": "good", "explanation": "nothing to say"} for name in DIMENSIONS},
    }
    if not is_right:
        found = {"level": "needs_work", "explanation": issue, "issues": [issue]}
        review |= {"reason": issue, "dimensions": {**review["dimensions"], "completeness": found}}
    return review


sys.stdin.read()
result_file = Path(os.environ["AGENTFORGE_RESULT"])
context = json.loads(result_file.with_name("context.json").read_text())
match context["stage"]["id"]:
    case "planner":
        artifact = planned(context)
    case "executor":
        artifact = executed(context["item"]["id"])
    case "verifier":
        artifact = verified()
    case _:
        artifact = reviewed()
Path(os.environ["AGENTFORGE_ARTIFACT"]).write_text(json.dumps(artifact))
result_file.write_text(json.dumps({"summary": artifact.get("summary", "done"), "decision": "continue"}))
