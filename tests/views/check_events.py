"""The lines of the events of checks, verdicts and routes."""

from agentforge.model import facts as f
from agentforge.model.check import Baseline, CheckCounts, FilesBefore
from agentforge.model.facts import AnyFact

PLACE = "node=1 visit=1 iter=2"

CHECK_LINES: list[tuple[AnyFact, str, str | None]] = [
    (f.CheckStarted("test"), f"{PLACE} check=test attempt=1", "build 2/3 running check test"),
    (
        f.CheckPrepared("test", 1, FilesBefore("abc", (1, 2, 3))),
        f"{PLACE} check=test attempt=1 tree=abc",
        None,
    ),
    (
        f.CheckCompleted(
            "test", 1, "pass", counts=CheckCounts(passed=12), tree_after="abc", duration_ms=1500
        ),
        f'{PLACE} check=test attempt=1 status=pass counts="12 passed" tree=abc',
        "build 2/3 check test passed in 1.5s: 12 passed",
    ),
    (
        f.CheckCompleted("test", 2, "fail", counts=CheckCounts(10, 2, 1, 3), reason="2 failed"),
        f'{PLACE} check=test attempt=2 status=fail counts="2 failed, 1 errors, 10 passed, 3 skipped"'
        ' reason="2 failed"',
        "build 2/3 check test failed: 2 failed, 1 errors, 10 passed, 3 skipped",
    ),
    (
        f.CheckCompleted("test", 1, "error", reason="no test was\nexecuted"),
        f'{PLACE} check=test attempt=1 status=error reason="no test was executed"',
        "build 2/3 check test had an error: no test was executed",
    ),
    (
        f.CheckCompleted("test", 1, "timeout", reason="it reached its time limit", duration_ms=1000),
        f'{PLACE} check=test attempt=1 status=timeout reason="it reached its time limit"',
        "build 2/3 check test timed out after 1.0s",
    ),
    (
        f.CheckCompleted("test", 1, "pass", changed=("a.py",)),
        f"{PLACE} check=test attempt=1 status=pass",
        "build 2/3 check test is void: files changed while it ran (a.py)",
    ),
    (
        f.CheckCompleted("test", 1, "pass", tree_problem="git is not\ninstalled"),
        f'{PLACE} check=test attempt=1 status=pass tree_problem="git is not installed"',
        "build 2/3 check test passed (no tree: git is not installed)",
    ),
    (
        f.CheckCompleted("test", 1, "pass", before=17),
        f"{PLACE} check=test attempt=1 status=pass",
        "build 2/3 check test passed: 17 failed before too",
    ),
    (
        f.CheckCompleted("test", 1, "fail", baseline="test+1", found=Baseline(("k",)), reason="1 failed"),
        f'{PLACE} check=test+1 attempt=1 status=fail reason="1 failed"',
        "build 2/3 baseline of check test failed: 1 failed",
    ),
    (
        f.CheckCompleted("test", 1, "fail", baseline="test+1", found=Baseline(unusable="it fails")),
        f"{PLACE} check=test+1 attempt=1 status=fail",
        "build 2/3 check test is not used in this run: before the first agent, it fails",
    ),
    (
        f.CheckEnding("test", 1, "requested"),
        f'{PLACE} check=test attempt=1 reason="requested"',
        "build 2/3 stopping check test: requested",
    ),
    (f.CheckLost("test"), f"{PLACE} check=test attempt=1", "build 2/3 lost check test (try 1)"),
    (
        f.Waived("test", "it is flaky", "Ada"),
        'waived=test by="Ada" reason="it is flaky"',
        "check test was waived by Ada: it is flaky",
    ),
    (
        f.Waived("", "not today", "Ada", "verify"),
        'skipped=verify by="Ada" reason="not today"',
        "stage verify was waived by Ada: not today",
    ),
    (
        f.StageVerdictReached("pass", "not today", skipped_by="Ada"),
        f'{PLACE} verdict=pass reason="not today" skipped_by=Ada',
        "build skipped by Ada: not today",
    ),
    (
        f.StageVerdictReached("pass", waived=("lint",)),
        f"{PLACE} verdict=pass waived=lint",
        "build verdict pass (waived: lint)",
    ),
    (
        f.StageVerdictReached("fail", "2 failed", failing=("test",), tree="abc"),
        f'{PLACE} verdict=fail failing=test reason="2 failed" tree=abc',
        "build verdict fail on tree abc",
    ),
    (
        f.StageTransitioned("verify", "build", "fail", "2 failed", cycle=2, of=3),
        f"{PLACE} from=verify to=build verdict=fail cycle=2/3",
        "build goes back to build (cycle 2 of 3): 2 failed",
    ),
    (
        f.StageTransitioned("verify", "last", "pass", skipped=("a", "b")),
        f"{PLACE} from=verify to=last verdict=pass skipped=a,b",
        "build continues with last, skipping a, b",
    ),
    (
        f.StageTransitioned("verify", "", "reject", "too risky", skipped=("docs",)),
        f"{PLACE} from=verify to=end verdict=reject skipped=docs",
        "build ends the run (verdict reject), skipping docs: too risky",
    ),
]
