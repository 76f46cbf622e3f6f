"""What is established about a change, and what isn't: as data, and as text."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import plan_of, stage
from tests.views.samples import history

from agentforge.model import facts as f
from agentforge.model.check import Check, CheckCounts, RanTest, TestsRan
from agentforge.model.cursor import Cursor
from agentforge.model.delivery import DeliveredWork
from agentforge.model.errors import UnusableFile
from agentforge.model.facts import AnyFact
from agentforge.model.plan import Plan
from agentforge.model.state import Waiver
from agentforge.views.evidence import Evidence, evidence_of
from agentforge.views.lines.evidence import evidence_entries, evidence_text
from agentforge.views.record import record_of

RED, GREEN = "a" * 40, "b" * 40
TESTS = {
    "red.json": (RanTest("t::a", "failed"), RanTest("t::b", "error")),
    "green.json": (*(RanTest(f"t::{n}", "passed") for n in range(12)), RanTest("t::s", "skipped")),
}


def read(ran: TestsRan) -> tuple[RanTest, ...]:
    if ran.file not in TESTS:
        raise UnusableFile("the tests of a check can't be read from gone.json: it is missing")
    return TESTS[ran.file]


def a_plan(**changes: Any) -> Plan:
    red = stage("red", checks=(Check("test", "pytest", expect="fail", parse="junit"),))
    check = Check("test", "pytest", **{"parse": "junit", "regressions": True, **changes})
    return plan_of(red, stage("green", checks=(check, Check("scope", scope=("src/",)))))


def ended(path: str, status: Any, tree: str | None, ids: str = "", **changes: Any) -> list[Any]:
    check = f.CheckCompleted(
        "test",
        status=status,
        tree_after=tree,
        tests=TestsRan(ids, "0" * 64) if ids else None,
        **changes,
    )
    facts: list[AnyFact] = [
        f.NodeStarted({"0": "red", "1": "green"}[path], path),
        f.CheckStarted("scope"),
        f.CheckCompleted("scope", status="pass"),
        f.CheckStarted("test"),
        check,
        f.StageVerdictReached("pass" if status == "pass" else "fail", tree=tree),
    ]
    return [(fact, Cursor(path, 1, 1)) for fact in facts]


def found(*facts: Any, plan: Plan | None = None, waivers: tuple[Waiver, ...] = ()) -> Evidence:
    start = f.SessionStarted("pipeline", "run-1", plan or a_plan(), "1.0", format=f.LOG_FORMAT)
    events = history((replace(start, waivers=waivers), None), *(one for each in facts for one in each))
    return evidence_of(record_of(events), read)


FAILED = ended("0", "pass", RED, "red.json", counts=CheckCounts(0, 1, 1))
PASSED = ended("1", "pass", GREEN, "green.json", counts=CheckCounts(12, skipped=1), before=2)
DELIVERED = [(f.Delivered(DeliveredWork("commit", "committed", "c" * 40, "main", count=2, tree=GREEN)), None)]


def test_tests_that_failed_and_then_passed_on_what_was_delivered_leave_nothing_open() -> None:
    evidence = found(FAILED, PASSED, DELIVERED)
    (red,), (green,) = evidence.red, evidence.green
    assert (red.failed, red.passed, red.tree, red.is_met) == (("t::a", "t::b"), (), RED, True)
    assert (green.passed, green.skipped, green.before) == (tuple(f"t::{n}" for n in range(12)), ("t::s",), 2)
    assert evidence.last_tree == GREEN
    assert evidence.not_established == ()
    assert [(entry.mark, entry.title) for entry in evidence_entries(evidence, ["x is gone"])] == [
        ("done", "Red: check test of red, which must fail, failed: 1 failed, 1 errors"),
        ("done", "Green: check test of green passed: 12 passed, 1 skipped (2 failed before too)"),
        ("done", "Delivered: committed 2 paths as cccccccccccc on main"),
        ("failed", "Differs now: x is gone"),
    ]
    lines = evidence_text(evidence)
    assert lines[:3] == [
        "## Evidence",
        "",
        "- Red: check test of red, which must fail, failed: 1 failed, 1 errors",
    ]
    assert "  - Passed: t::0, t::1, t::2, t::3, t::4, t::5, t::6, t::7, t::8, t::9 and 2 others" in lines


def test_what_a_run_without_checks_does_not_establish_is_said() -> None:
    assert found().not_established == (
        "No tests were seen to fail before the change.",
        "No tests were seen to pass after the change.",
        "Nothing was delivered: the change is in the workspace.",
    )


@pytest.mark.parametrize(
    ("facts", "changes", "sentence"),
    [
        (
            (FAILED, PASSED, ended("1", "fail", "d" * 40, "green.json", reason="2 failed")),
            {},
            "No tests were seen to pass after the change.",
        ),
        (
            (FAILED, ended("1", "pass", None, "green.json")),
            {},
            "The tests were not seen to pass on the files of the last verdict.",
        ),
        (
            (FAILED, PASSED),
            {"regressions": False},
            "Whether tests that passed before fail now was not compared.",
        ),
        (
            (FAILED, ended("1", "pass", GREEN)),
            {"parse": "exit"},
            "Check 'test' of stage 'green' has an exit status only: no ids of tests are known.",
        ),
        (
            (FAILED, ended("1", "pass", GREEN, counts=CheckCounts(3))),
            {"parse": "pytest"},
            "Check 'test' of stage 'green' has counts only: no ids of tests are known.",
        ),
    ],
)
def test_what_is_missing_is_said(facts: Any, changes: dict[str, Any], sentence: str) -> None:
    assert sentence in found(*facts, plan=a_plan(**changes)).not_established


def test_ids_that_can_not_be_read_and_decisions_of_people_are_shown() -> None:
    accepted = [(f.NodeCompleted("green", "x", 1, verdict="fail", overridden_by="Ada"), Cursor("1", 1, 1))]
    lost = ended("1", "fail", None, "gone.json", reason="1 failed")
    evidence = found(FAILED, lost, accepted, waivers=(Waiver("lint", "slow", "Ada"),))
    shown = {entry.title: entry for entry in evidence_entries(evidence)}
    assert "Accepted by a person despite its verdict: green" in shown
    assert "Waived: lint by Ada: slow" in shown
    green = shown["Green: check test of green failed"]
    assert [(row.label, row.value) for row in green.rows] == [
        ("Reason", "1 failed"),
        ("Tree", "unknown"),
        ("Ids", "the tests of a check can't be read from gone.json: it is missing"),
    ]
