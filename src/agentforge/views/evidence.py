"""What the engine established about the change of a run, and what it didn't: a selection of the record.

Nothing that an agent says is part of it. Checks are sorted by what they had to show: that tests fail before
there is code (`expect: red` or `fail`), and that they pass afterwards.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from agentforge.model.check import Check, CheckCounts, RanTest, TestsRan
from agentforge.model.delivery import DeliveredWork
from agentforge.model.errors import UnusableFile
from agentforge.model.plan import PASS, Plan
from agentforge.model.state import Waiver
from agentforge.views.record import RunRecord
from agentforge.views.visits import CheckRun, CheckRunStatus, StageVisit

ReadTests = Callable[[TestsRan], tuple[RanTest, ...]]
"""Raises UnusableFile if their file is missing or was changed."""


class SeenCheck(Struct, frozen=True):
    """The last run of a check in the last visit of its stage."""

    stage: str
    visit: int
    check: str
    command: str
    must_fail: bool
    status: CheckRunStatus
    reason: str
    counts: CheckCounts
    tree: str | None
    """The files that it saw."""
    compared: bool
    """Whether only failures count that were not there before the first agent."""
    before: int
    """How many were."""
    failed: tuple[str, ...] | None = None
    """The ids of the tests that failed or had an error; None: its report has no ids."""
    passed: tuple[str, ...] | None = None
    skipped: tuple[str, ...] | None = None
    problem: str = ""
    """Why the ids can't be read, although they were recorded."""

    @property
    def has_tests(self) -> bool:
        return self.failed is not None or self.counts.total > 0

    @property
    def is_met(self) -> bool:
        return self.status == "pass"


class Evidence(Struct, frozen=True):
    red: tuple[SeenCheck, ...]
    """Checks that had to fail."""
    green: tuple[SeenCheck, ...]
    """Those that had to pass."""
    waivers: tuple[Waiver, ...]
    accepted: tuple[str, ...]
    """The stages whose result a person accepted despite its verdict."""
    first_tree: str | None
    """The files when the run began."""
    last_tree: str | None
    """Those that the last verdict is about."""
    delivered: DeliveredWork | None
    not_established: tuple[str, ...] = ()
    """Sentences."""


def evidence_of(record: RunRecord, read: ReadTests) -> Evidence:
    plan = record.model.plan
    last = {(visit.path, visit.branch): visit for visit in record.visits}.values()
    seen = [*_seen(plan, last, read)] if plan else []
    found = Evidence(
        red=tuple(one for one in seen if one.must_fail),
        green=tuple(one for one in seen if not one.must_fail),
        waivers=record.model.state.waivers if record.model.state else (),
        accepted=tuple(visit.stage for visit in last if visit.accepted_by),
        first_tree=record.trees.first,
        last_tree=next((visit.tree for visit in reversed(record.visits) if visit.verdict == PASS), None),
        delivered=record.delivered,
    )
    return _with_gaps(found)


def _seen(plan: Plan, visits: Iterable[StageVisit], read: ReadTests) -> Iterator[SeenCheck]:
    for visit in visits:
        node = plan.stage(visit.path, visit.branch)
        for run in visit.latest_checks if node else ():
            check = node.check(run.check) if node else None
            # A rule about files says nothing about tests.
            if check is not None and check.run:
                yield _checked(visit, run, check, read)


def _checked(visit: StageVisit, run: CheckRun, check: Check, read: ReadTests) -> SeenCheck:
    ids: dict[str, tuple[str, ...]] = {}
    problem = ""
    if run.tests is not None:
        try:
            tests = read(run.tests)
        except UnusableFile as error:
            problem = error.message
        else:
            named = {"failed": ("failed", "error"), "passed": ("passed",), "skipped": ("skipped",)}
            ids = {
                name: tuple(test.id for test in tests if test.status in statuses)
                for name, statuses in named.items()
            }
    return SeenCheck(
        stage=visit.stage,
        visit=visit.visit,
        check=run.check,
        command=check.run,
        must_fail=check.expect != "pass",
        status=run.status,
        reason=run.reason,
        counts=run.counts,
        tree=run.tree,
        compared=check.regressions,
        before=run.before,
        problem=problem,
        **ids,
    )


def _with_gaps(found: Evidence) -> Evidence:
    return Evidence(
        **{name: getattr(found, name) for name in Evidence.__struct_fields__ if name != "not_established"},
        not_established=tuple(_gaps(found)),
    )


def _gaps(found: Evidence) -> Iterator[str]:
    red = [one for one in found.red if one.is_met]
    green = [one for one in found.green if one.is_met and one.has_tests]
    if not red:
        yield "No tests were seen to fail before the change."
    if not green:
        yield "No tests were seen to pass after the change."
    elif found.last_tree is None or all(one.tree != found.last_tree for one in green):
        yield "The tests were not seen to pass on the files of the last verdict."
    if green and not any(one.compared for one in green):
        yield "Whether tests that passed before fail now was not compared."
    for one in (*found.red, *found.green):
        if one.failed is None:
            has = "counts" if one.counts.total else "an exit status"
            yield f"Check {one.check!r} of stage {one.stage!r} has {has} only: no ids of tests are known."
    if found.delivered is None:
        yield "Nothing was delivered: the change is in the workspace."
