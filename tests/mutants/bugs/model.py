"""Bugs in statuses, failure kinds, session names, conditions and the limits of what a log contains."""

from tests.mutants.mutation import Mutation as Bug

STATUS = "agentforge.model.status"
FAILURE = "agentforge.model.failure"
SESSION_NAME = "agentforge.model.session_name"
CONDITION = "agentforge.model.condition"
PATTERN = "agentforge.model.text_pattern"
FACT_LIMITS = "agentforge.model.fact_limits"
PLAN_LIMITS = "agentforge.model.plan_limits"

BUGS = (
    Bug(
        STATUS,
        "a completed run continues",
        "_R.COMPLETED: frozenset(),",
        "_R.COMPLETED: frozenset({_R.RUNNING}),",
    ),
    Bug(
        STATUS, "an aborted run continues", "_R.ABORTED: frozenset(),", "_R.ABORTED: frozenset({_R.RUNNING}),"
    ),
    Bug(STATUS, "any status transition is legal", "    if to not in table[current]:\n", "    if False:\n"),
    Bug(
        STATUS,
        "a lost attempt can fail",
        "_A.LOST: frozenset({_A.SUCCEEDED}),",
        "_A.LOST: frozenset({_A.SUCCEEDED, _A.FAILED}),",
    ),
    Bug(
        STATUS,
        "a paused run can't be cancelled",
        "_R.PAUSED: frozenset({_R.RUNNING, _R.ABORTED}),",
        "_R.PAUSED: frozenset({_R.RUNNING}),",
    ),
    Bug(
        STATUS,
        "a completed iteration can fail",
        "_I.COMPLETED: frozenset(),",
        "_I.COMPLETED: frozenset({_I.FAILED}),",
    ),
    Bug(
        FAILURE,
        "a rate limit doesn't count as a limit",
        "frozenset({FailureKind.PROVIDER_QUOTA, FailureKind.PROVIDER_RATE_LIMITED})",
        "frozenset({FailureKind.PROVIDER_QUOTA})",
    ),
    Bug(
        SESSION_NAME,
        "session names aren't Unicode-normalized",
        'name = unicodedata.normalize("NFC", text)',
        "name = text",
    ),
    Bug(
        SESSION_NAME,
        "a session name may escape its folder",
        "    if not _SESSION.fullmatch(name):\n",
        "    if False:\n",
    ),
    Bug(
        SESSION_NAME,
        "only the beginning of a session name is validated",
        "_SESSION.fullmatch(name)",
        "_SESSION.match(name)",
    ),
    Bug(
        SESSION_NAME,
        "a session name may be too long for a file name",
        ' or len(given.encode("utf-8", "replace")) > MAX_SESSION_BYTES',
        "",
    ),
    Bug(CONDITION, "a condition of any depth is accepted", "if depth > MAX_DEPTH or ", "if "),
    Bug(CONDITION, "a quote in a text of a condition is not escaped", """.replace('"', '\\\\"')""", ""),
    Bug(PATTERN, "a pattern only matches at the start", "[*active, start]", "active or [start]"),
    Bug(PATTERN, "`$` matches anywhere", ' or (state.edge == "$" and not at_end)', ""),
    Bug(
        FACT_LIMITS,
        "the delivery id of a log can be any path",
        "case RequestOpened(id=id) | HookStarted(delivery=id):",
        "case RequestOpened(id=id):",
    ),
    Bug(
        PLAN_LIMITS,
        "the hooks of nested pipelines in a log are not checked",
        "yield from _hook_problems(part.pipeline)",
        "yield from _hook_problems(plan.pipeline)",
    ),
)
