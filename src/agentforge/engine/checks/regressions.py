"""Compares what a check finds with what it found before the first agent of the run."""

from hashlib import sha256

from msgspec.structs import replace

from agentforge.engine.checks.outcome import ReadCheck
from agentforge.model.check import MAX_KEPT_FAILURES, Baseline, CheckFailure

# A failure is the same as before if its test is, or its file and rule. Its message and its line may change as
# the code does. Without a rule, the signature has to do: otherwise one old failure would hide all new ones of
# the file. Keys are short hashes, so that thousands of failures fit into the log and the state.

_KEY_CHARS = 12


def baseline_of(read: ReadCheck) -> Baseline:
    outcome = read.outcome
    if outcome.problem == "no_tests":
        return Baseline()  # Without tests, none failed.
    if outcome.status in ("error", "timeout"):
        return Baseline(unusable=outcome.reason)
    if outcome.status == "pass":
        return Baseline()
    keys = {_key(failure) for failure in read.failures}
    if "" in keys:
        return Baseline(unusable=f"it fails: {outcome.reason}")
    if outcome.failure_count > len(read.failures):
        return Baseline(unusable=f"it has {outcome.failure_count:,} failures")
    return Baseline(tuple(sorted(keys)))


def only_new(read: ReadCheck, before: Baseline) -> ReadCheck:
    """The outcome without the failures that were there before."""
    outcome, known = read.outcome, frozenset(before.keys)
    if outcome.status != "fail":
        return read
    new = tuple(failure for failure in read.failures if _key(failure) not in known)
    old = len(read.failures) - len(new)
    number = outcome.failure_count - old
    if not old:
        return read
    if not number:
        passed = replace(outcome, status="pass", failures=(), failure_count=0, reason="", before=old)
        return ReadCheck(passed, (), read.tests)
    reason = f"{number:,} new failure{'' if number == 1 else 's'} ({old:,} failed before too)"
    kept = new[:MAX_KEPT_FAILURES]
    failed = replace(outcome, failures=kept, failure_count=number, reason=reason, before=old)
    return ReadCheck(failed, new, read.tests)


def _key(failure: CheckFailure) -> str:
    """Empty for one that is only the exit status of the command."""
    of_file = f"{failure.file}\0{failure.rule}" if failure.rule else failure.signature
    named = failure.id or (of_file if failure.file else "")
    return sha256(named.encode("utf-8", "replace")).hexdigest()[:_KEY_CHARS] if named else ""
