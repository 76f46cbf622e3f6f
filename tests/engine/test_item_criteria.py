"""What the engine verifies of the criteria of an item; no command line in them is run."""

from typing import Any

import pytest
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import play

from agentforge.engine.checks.criteria import MAX_CRITERIA, Criteria, criteria_of, needed_checks
from agentforge.engine.checks.findings import read_criteria
from agentforge.model.check import CRITERIA, Check, FileRule
from agentforge.model.plan import Items

KNOWN = ("lint", "test")
BAD = "criterion 1 can't be verified: "


def of(*criteria: Any) -> Criteria:
    return criteria_of({"id": "s1", "done_when": list(criteria)}, "done_when", KNOWN)


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        ("The output is sorted", Criteria()),
        ("make test", Criteria()),
        ({"command": "test"}, Criteria(checks=("test",))),
        ({"file": {"path": "a.md"}}, Criteria((FileRule("a.md"),))),
        (
            {"file": {"path": "a.md", "contains": "x", "absent": ["y", "z"], "heading": ["H", ""]}},
            Criteria((FileRule("a.md", ("x",), ("y", "z"), ("H",)),)),
        ),
        (
            {"command": "rm -rf ."},
            Criteria(problems=(f"{BAD}no command has this name; there are: lint, test",)),
        ),
        ({"file": {"path": "../a"}}, Criteria(problems=(f"{BAD}the path leads outside the project",))),
        ({"file": {"path": "/etc/passwd"}}, Criteria(problems=(f"{BAD}the path leads outside the project",))),
        ({}, Criteria(problems=(f"{BAD}it needs `file` or `command`",))),
        (
            {"file": {"path": "a"}, "command": "test"},
            Criteria(problems=(f"{BAD}it needs `file` or `command`",)),
        ),
    ],
)
def test_criterion_is_a_text_a_rule_or_the_name_of_a_command(criterion: Any, expected: Criteria) -> None:
    assert of(criterion) == expected


@pytest.mark.parametrize(
    "criterion",
    [
        *(1, None, [], {"run": "make"}, {"command": 1}, {"file": "a"}, {"file": {}}, {"file": {"path": ""}}),
        {"file": {"path": "a", "matches": "x"}},
        {"file": {"path": "a", "contains": ["x"] * 21}},
        {"file": {"path": "a", "contains": "x" * 4_001}},
        {"command": "test", "arguments": ["-x"]},
    ],
)
def test_another_criterion_is_a_problem_that_is_named(criterion: Any) -> None:
    (problem,) = of(criterion).problems
    assert problem.startswith(BAD)
    assert len(problem) < 300


def test_criteria_are_a_list_of_limited_length() -> None:
    assert criteria_of({"done_when": "all tests pass"}, "done_when", KNOWN) == Criteria()
    assert criteria_of({}, "done_when", KNOWN) == criteria_of("s1", "done_when", KNOWN) == Criteria()
    assert criteria_of({"done_when": 1}, "done_when", KNOWN).problems == ("`done_when` must be a list",)
    many = of(*[{"command": "test"}] * (MAX_CRITERIA + 1))
    assert many == Criteria(checks=("test",), problems=("it has 51 criteria; the maximum is 50",))


TEST = Check("test", "make test", at=("iteration",), criteria=True)
CHECKED = stage(
    "do",
    termination=Items(9, "plan.steps", criteria="done_when"),
    checks=(Check(CRITERIA, at=("iteration",), criteria=True), TEST),
)


def test_item_needs_the_checks_that_its_criteria_name() -> None:
    assert needed_checks(CHECKED, {"done_when": ["nice", {"command": "test"}]}) == ("test",)
    both = {"done_when": [{"command": "test"}, {"file": {"path": "a"}}]}
    assert needed_checks(CHECKED, both) == (CRITERIA, "test")
    assert needed_checks(CHECKED, {"done_when": [{"command": "x"}]}) == (CRITERIA,)
    assert needed_checks(stage("do", termination=Items(9, "plan.steps")), both) == ()


def test_rules_and_problems_are_one_outcome() -> None:
    found = of({"command": "x"}, {"file": {"path": "a", "contains": "y"}}, {"file": {"path": "b"}})
    reading = read_criteria(found, [b"z", b""])
    assert [failure.signature for failure in reading.failures] == [
        f"{BAD}no command has this name; there are: lint, test",
        "a: it doesn't contain 'y'",
    ]


def test_files_of_criteria_are_in_memory_one_at_a_time() -> None:
    """Each may have the largest size that is read."""
    held = [0]

    class Content(bytes):
        def __init__(self, _: bytes) -> None:
            held[0] += 1
            assert held[0] <= 2, "that before may still be referred to"

        def __del__(self) -> None:
            held[0] -= 1

    found = of(*({"file": {"path": f"f{number}"}} for number in range(9)))
    assert not read_criteria(found, (Content(b"x") for _ in found.rules)).failures


def test_baseline_is_that_of_the_check_of_the_pipeline() -> None:
    assert TEST.baseline == Check("test", "make test", at=("start",), timeout=9).baseline
    assert TEST.baseline != Check("test", "make test", parse="lines").baseline


def test_check_runs_after_the_iterations_of_the_items_that_need_it() -> None:
    conversation = play(
        plan_of(CHECKED),
        """
        > start
        < node_start do
        ? items do 0
        > items a!test b
        ? prepare do 1 a 1/2
        > prepared item=a
        < attempt_start 1
        ? execute do 1 attempt 1
        > completed
        < check_start test 1
        ? check test 1
        > check fail x
        ? prepare do 2 a 1/2
        > prepared item=a
        < attempt_start 1
        ? execute do 2 attempt 1
        > completed
        < check_start test 1
        ? check test 1
        > check fail x
        < item_ended a failed
        ? prepare do 3 b 2/2
        > prepared item=b
        < attempt_start 1
        ? execute do 3 attempt 1
        > completed
        < item_ended b done
        < stage_verdict fail a
        < session_failed rejected
        = failed
        """,
    )
    assert conversation.state is not None
