"""Bugs in how the outcome of a check is read, and in what it tells the next iteration."""

from tests.mutants.mutation import Mutation as Bug

OUTCOME = ("tests/engine/test_check_outcome.py", "tests/engine/test_check_parsers.py")
ROUTES = ("tests/engine/test_decide_checks.py", "tests/engine/test_route_graphs.py")

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
        "agentforge.views.check_feedback",
        "many checks make the feedback longer than its limit",
        "room // len(shown) - 2",
        "room",
        ("tests/views/test_check_feedback.py",),
    ),
    Bug(
        "agentforge.engine.decide.checks",
        "an agent's claim outranks a failing check",
        "    if failed := here.failing:\n",
        "    if (failed := here.failing) and not here.at.claim:\n",
        ROUTES,
    ),
    Bug(
        "agentforge.engine.decide.checks",
        "an outcome counts although files changed",
        "    if known.changed and known.voids < MAX_VOID_CHECKS:\n",
        "    if known.changed and known.voids < 0:\n",
        ROUTES,
    ),
    Bug(
        "agentforge.engine.decide.routes",
        "one cycle more than the limit",
        "    if cycle > limit:",
        "    if cycle > limit + 1:",
        ROUTES,
    ),
    Bug(
        "agentforge.engine.evolve.checks",
        "an outer cycle keeps the counters inside it",
        " if not _is_inside(key, target, source, provider)",
        "",
        ROUTES,
    ),
    Bug(
        "agentforge.engine.evolve.checks",
        "a cycle resets every counter",
        "{**outside, route_key(source, provider, target): count}",
        "{route_key(source, provider, target): count}",
        ROUTES,
    ),
    Bug(
        "agentforge.app.replay",
        "a replay runs the checks of a cassette that nobody allowed",
        "(*map(shlex.join, cassette.commands), *checks)",
        "map(shlex.join, cassette.commands)",
        ("tests/sdk/test_recorded_checks.py",),
    ),
    Bug(
        "agentforge.runtime.check_report",
        "a report of an earlier run counts",
        " or (before is not None and self.stamp(path) == before):",
        ":",
        ("tests/runtime/test_check_report.py",),
    ),
)
