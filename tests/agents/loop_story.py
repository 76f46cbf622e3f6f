"""One story of the loop for every kind of agent: a question, an artifact that is healed, four steps, a test
that fails once, and three rejections with new plans; then a person grants one more pass."""

import json
from collections.abc import Callable
from shlex import quote
from typing import Any

from agentforge.testing.model_server import Action, Call, Rule, Script, Shell, Turn, Write

REQUEST = "Add a slugify function"
ANSWER = "a dash, please"
LEDGER = "done.txt"
"""A line for each time that a step was done."""
FILES = {
    "slugs.py": "def title(text: str) -> str:\n    return text.title()\n",
    "tests/__init__.py": "",
    "tests/test_title.py": (
        "import unittest\n\nfrom slugs import title\n\n\nclass TitleTest(unittest.TestCase):\n"
        '    def test_title(self) -> None:\n        assert title("plum") == "Plum"\n'
    ),
    "pyproject.toml": '[project]\nname = "slugs"\nversion = "0"\n',
}
WRONG = FILES["slugs.py"] + '\n\ndef slugify(text: str) -> str:\n    return "-".join(text.split())\n'
RIGHT = WRONG.replace("text.split", "text.lower().split")
TEST = (
    FILES["tests/test_title.py"].replace("title", "slugify").replace('"plum") == "Plum"', '"A b") == "a-b"')
)
WRITTEN: dict[str, tuple[str, str]] = {
    "s1": ("slugs.py", WRONG),
    "s2": ("tests/test_slugify.py", TEST),
    "s3": ("README.md", "slugify\n"),
    "s4": ("old.md", "Of the first plan\n"),
    "s5": ("empty.md", "An empty text\n"),
    "s6": ("long.md", "A long text\n"),
    "s7": ("dashes.md", "Several dashes\n"),
    "repair": ("slugs.py", RIGHT),
}
"""The file of each step, with its content."""
STEPS_DONE = ["s1", "s2", "s3", "s4", "repair", "s3", "s5", "s6", "s7"]
REASONS = ("the first problem", "the second problem", "the third problem")
VISITS = ["planner", "executor", "verifier", "executor", "verifier", "reviewer"] + [
    "planner",
    "executor",
    "verifier",
    "reviewer",
] * 3
DIMENSIONS = ("intent_alignment", "code_quality", "completeness", "consistency", "safety")

Finish = Callable[[dict[str, Any], dict[str, Any] | None, tuple[Action, ...]], tuple[Turn, ...]]
"""The turns with which an agent leaves this result and this artifact after these actions."""


def finish_with_files(
    result: dict[str, Any], artifact: dict[str, Any] | None, actions: tuple[Action, ...]
) -> tuple[Turn, ...]:
    """Of an agent with tools of its own."""
    left: tuple[Action, ...] = (Write("{result}", json.dumps(result)),)
    if artifact is not None:
        left = (Write("{artifact}", json.dumps(artifact)), *left)
    turns = (Turn("I work.", actions),) if actions else ()
    return (*turns, Turn("Now what I leave.", left), Turn("Everything is written."))


def finish_with_the_tool_of_claude(
    result: dict[str, Any], artifact: dict[str, Any] | None, actions: tuple[Action, ...]
) -> tuple[Turn, ...]:
    """A valid call of it ends the work. It is there for the work plan only: other schemas have conditions."""
    if artifact is None or not artifact.get("steps"):
        return finish_with_files(result, artifact, actions)
    wrote = (*actions, Write("{result}", json.dumps(result)))
    return (Turn("I work.", wrote), Turn("The artifact.", (Call("StructuredOutput", artifact),)))


def finish_with_a_call(
    result: dict[str, Any], artifact: dict[str, Any] | None, actions: tuple[Action, ...]
) -> tuple[Turn, ...]:
    """Of a model that is called directly."""
    call = Call("complete", result if artifact is None else {**result, "result": artifact})
    turns = (Turn("I work.", actions),) if actions else ()
    return (*turns, Turn("Done.", (call,)))


def plan(*ids: str, changed: str = "") -> dict[str, Any]:
    return {
        "goal": "slugs.py has a tested slugify",
        "steps": [
            {
                "id": id,
                "title": f"Do {id}" + (" again" if id == changed else ""),
                "action": f"Write {WRITTEN[id][0]}.",
                "criteria": [{"file": {"path": WRITTEN[id][0]}}],
            }
            for id in ids
        ],
    }


def doing(id: str) -> Action:
    """By the shell: some agents only write over files that they have read."""
    name, text = WRITTEN[id]
    return Shell(f"echo {id} >> {LEDGER} ; printf %s {quote(text)} > {name}")


def review(reason: str) -> dict[str, Any]:
    level = "poor" if reason else "good"
    return {
        "verdict": "reject" if reason else "pass",
        "summary": "looked at it",
        "tried": ["an empty text"],
        "dimensions": {name: {"level": level, "explanation": reason or "fine"} for name in DIMENSIONS},
        **({"reason": reason} if reason else {}),
    }


def script(finish: Finish) -> Script:
    """What the model does depends on what its prompt says; the first rule that applies counts."""
    fine = {"summary": "did it", "decision": "continue"}

    def rule(stage: str, says: str, artifact: dict[str, Any], *actions: Action) -> Rule:
        return Rule(rf"# {stage}\n[\s\S]*{says}", finish(fine, artifact, actions))

    question = {"id": "sign", "question": "Which sign is between the words?"}
    ask = {"summary": "unclear", "decision": "ask", "questions": [question]}
    checked = {"verdict": "pass", "checks": [{"name": "all", "status": "pass"}]}
    done = {"verdict": "pass", "summary": "did it"}
    planner, executor = "Plan the work", "Do one step"
    steps = [
        rule(executor, says, done, doing(id))
        for id, says in [*((id, rf"----- item {id} \(") for id in WRITTEN if id != "repair"), ("repair", "")]
    ]
    rules = (
        rule(planner, REASONS[2], plan("s1", "s2", "s3", "s5", "s6", "s7", changed="s3")),
        rule(planner, REASONS[1], plan("s1", "s2", "s3", "s5", "s6", changed="s3")),
        rule(planner, REASONS[0], plan("s1", "s2", "s3", "s5", changed="s3")),
        Rule(
            r"left was not accepted[\s\S]*# Plan the work\n", finish(fine, plan("s1", "s2", "s3", "s4"), ())
        ),
        rule(planner, ANSWER, {"goal": "slugify exists", "steps": []}),
        Rule(r"# Plan the work\n", finish(ask, None, ())),
        *steps,
        rule("Verify the work", "", checked),
        rule("Review the change", REASONS[2], review("")),
        rule("Review the change", REASONS[1], review(REASONS[2])),
        rule("Review the change", REASONS[0], review(REASONS[1])),
        rule("Review the change", "", review(REASONS[0])),
    )
    return Script(rules=rules)
