"""Checks, with which the engine verifies the work of agents, and their outcomes."""

from functools import cached_property
from hashlib import sha256
from typing import ClassVar, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

CheckParser = Literal["exit", "junit", "pytest", "lines"]
CheckExpectation = Literal["pass", "fail", "red"]
"""`fail`: the command fails. `red`: its tests fail, because of what they test."""
CheckStatus = Literal["pass", "fail", "error", "timeout"]
CheckProblem = Literal["not_started", "terminated", "no_tests", "no_report", "unreadable", "no_tree"]
"""Why a check is an error: it says nothing about the work."""

CheckTime = Literal["need", "start", "iteration", "end"]
"""When a check runs: before the first iteration, after each, or when the stage is over. Agents run only if
those of `start` pass, and one of `need` fails."""

OWN_REPORT = "AGENTFORGE_REPORT"
"""The variable with the path at which a command can leave a report, outside of the project."""

MAX_KEPT_FAILURES = 50
"""The failures of an outcome; the others are only in a file."""


CRITERIA = "criteria"
"""The check that applies the rules in the criteria of an item."""
BASELINE = "+"
"""Between the name of a check and what tells its baseline from others; names have none."""


class FileRule(Struct, frozen=True, omit_defaults=True):
    """What a file of the project must be like; at least, it must exist."""

    path: str
    """Relative to the project."""
    contains: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """Texts that must not be in it."""
    heading: tuple[str, ...] = ()
    """Headings that its Markdown must have."""


class Check(Struct, frozen=True, omit_defaults=True, dict=True):
    """What verifies the work of a stage: a program, or a rule that the engine itself applies."""

    name: str
    run: str = ""
    """A shell command line; empty if it has a rule."""
    expect: CheckExpectation = "pass"
    parse: CheckParser = "exit"
    report: str | None = None
    """The file that `junit` reads, relative to the project. None: the command leaves it at OWN_REPORT."""
    timeout: float | None = None
    at: tuple[CheckTime, ...] = ("end",)
    network: bool = False
    """Whether it needs the network."""
    file: FileRule | None = None
    scope: tuple[str, ...] = ()
    """Patterns: the files that change in a visit must match one of them."""
    criteria: bool = False
    """Whether it runs only for the items whose criteria need it; without a command, it verifies these."""
    regressions: bool = False
    """Whether only failures count that were not there before the first agent."""
    red_tolerance: float = 0.0
    """How much of the executed tests may pass with `red`."""

    @cached_property
    def baseline(self) -> str:
        """Identifies its baseline: the same in a recompiled plan, if the check is the same."""
        same = replace(self, at=("end",), timeout=None, criteria=False, expect="pass", red_tolerance=0.0)
        what = msgspec.json.encode(same, order="deterministic")
        return f"{self.name}{BASELINE}{sha256(what).hexdigest()[:12]}"


class CheckCounts(Struct, frozen=True, omit_defaults=True):
    """Tests, or for a linter the lines that it reported."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    """Tests that couldn't run, such as those of a file that can't be imported."""
    skipped: int = 0

    @property
    def executed(self) -> int:
        return self.passed + self.failed + self.errors

    @property
    def total(self) -> int:
        return self.executed + self.skipped


TestStatus = Literal["passed", "failed", "error", "skipped"]


class RanTest(Struct, frozen=True, array_like=True):
    """One test of a report."""

    id: str
    status: TestStatus
    message: str = ""
    """Why it failed or was skipped, in one line."""
    file: str = ""
    """Relative to the project, if the report names it."""


class TestsRan(Struct, frozen=True):
    """All tests of a report; their ids are in a file of the run."""

    __test__: ClassVar[bool] = False
    """Not a class of tests, whatever pytest makes of its name."""

    file: str
    """Relative to the run directory."""
    sha256: str
    counts: CheckCounts = CheckCounts()
    """Of the ids; a report may have several tests of one id."""


class CheckFailure(Struct, frozen=True, omit_defaults=True):
    signature: str
    """Equal for the same failure in another run of the check."""
    id: str = ""
    """Of the test."""
    file: str = ""
    line: int = 0
    rule: str = ""
    """Of a linter, or the type of an exception."""
    message: str = ""
    is_error: bool = False
    """Whether the test couldn't run."""


class Baseline(Struct, frozen=True, omit_defaults=True):
    """What a check found before the first agent of a run."""

    keys: tuple[str, ...] = ()
    """Hashes of what identifies its failures, sorted."""
    unusable: str = ""
    """Why nothing can be compared with it; the check is then not used in the run."""
    tests: TestsRan | None = None
    """All tests that ran, if the report has them."""


class CheckEnd(Struct, frozen=True):
    """How the program of a check ended."""

    exit_code: int | None = None
    """None: it didn't start, or a signal ended it."""
    timed_out: bool = False
    not_started: str = ""
    """Why it couldn't be started."""
    output_lost: str = ""
    """Why a part of its output is missing."""


class CheckOutcome(Struct, frozen=True, omit_defaults=True):
    status: CheckStatus
    exit_code: int | None = None
    counts: CheckCounts = CheckCounts()
    failures: tuple[CheckFailure, ...] = ()
    """At most `MAX_KEPT_FAILURES`."""
    failure_count: int = 0
    """All failures, also those that are not kept."""
    problem: CheckProblem | None = None
    """Of an error."""
    reason: str = ""
    """Why the status is not `pass`, in one sentence."""
    before: int = 0
    """Failures that don't count, because they were there before the first agent."""

    @property
    def signatures(self) -> tuple[str, ...]:
        """Of the kept failures, each one once."""
        return tuple(dict.fromkeys(failure.signature for failure in self.failures))


ReportStamp = tuple[int, int, int]
"""Inode, time of the change and size: tells a report from the one that was there before."""


class FilesBefore(Struct, frozen=True, omit_defaults=True):
    """What the engine saw before a check."""

    tree: str | None = None
    report: ReportStamp | None = None
    """Identifies the report that was there, so that it isn't taken for a new one."""
    problem: str = ""
    """Why there is no tree."""
