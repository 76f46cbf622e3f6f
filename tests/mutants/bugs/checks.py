"""Bugs in how the outcome of a check is read, and in what it tells the next iteration."""

from tests.mutants.mutation import Mutation as Bug

OUTCOME = ("tests/engine/test_check_outcome.py", "tests/engine/test_check_parsers.py")

BUGS = (
    Bug(
        "agentforge.engine.checks.outcome",
        "zero executed tests pass",
        'if parser in ("junit", "pytest") and not reading.counts.executed:',
        'if parser in ("junit", "pytest") and not reading.counts.total:',
        OUTCOME,
    ),
    Bug(
        "agentforge.engine.checks.outcome",
        "a report outranks the exit status",
        "    if code == 0 and not reading.failure_count:\n",
        "    if not reading.failure_count:\n",
        OUTCOME,
    ),
    Bug(
        "agentforge.engine.checks.outcome",
        "an error of a check that is expected to fail is a pass",
        "        return _error(code, reading.problem, hide(reading.reason))\n",
        "        return _expected(_judged(reading, code or 1, output, hide), expect)\n",
        OUTCOME,
    ),
    Bug(
        "agentforge.engine.checks.junit",
        "a document type is accepted",
        "        parser.StartDoctypeDeclHandler = _refuse_doctype\n",
        "",
        OUTCOME,
    ),
    Bug(
        "agentforge.engine.checks.junit",
        "elements may be nested without a limit",
        "        if self._depth > MAX_DEPTH:\n",
        "        if self._depth < 0:\n",
        OUTCOME,
    ),
    Bug(
        "agentforge.engine.checks.junit",
        "a suite that failed in its set-up is not counted",
        "            if self._test is None:  #",
        "            if False:  #",
        OUTCOME,
    ),
    Bug(
        "agentforge.engine.checks.lint_lines",
        "notes are failures",
        "    if severity in _NOTES:\n",
        "    if not severity and severity in _NOTES:\n",
        OUTCOME,
    ),
    Bug(
        "agentforge.engine.checks.pytest_output",
        "failures that are only counted are none",
        "    if counts.failed + counts.errors and not self._failures.count:\n",
        "    if counts.errors and not self._failures.count:\n",
        OUTCOME,
    ),
    Bug(
        "agentforge.engine.checks.pytest_output",
        "what a test printed counts as the counts of pytest",
        "True, FailureList(self._hide), 0, None\n",
        "True, FailureList(self._hide), 0, self._counts\n",
        OUTCOME,
    ),
    Bug(
        "agentforge.engine.checks.signature",
        "a message that was cut is kept up to the cut",
        "    if first.endswith(_CUT):\n",
        "    if first == _CUT:\n",
        OUTCOME,
    ),
    Bug(
        "agentforge.engine.checks.feedback",
        "many checks make the feedback longer than its limit",
        "room // (len(needed) - done)",
        "room",
        ("tests/engine/test_failing_text.py", "tests/views/test_check_feedback.py"),
    ),
    Bug(
        "agentforge.app.runs.replay",
        "a replay runs the checks of a cassette that nobody allowed",
        "(*map(shlex.join, cassette.commands), *checks)",
        "map(shlex.join, cassette.commands)",
        ("tests/sdk/test_recorded_checks.py",),
    ),
    Bug(
        "agentforge.runtime.tasks.check",
        "a report of an earlier run counts",
        " or (before is not None and self.stamp(path) == before):",
        ":",
        ("tests/runtime/test_check_report.py",),
    ),
)
