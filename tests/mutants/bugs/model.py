"""Bugs in statuses, failure kinds, session names, conditions and the limits of what a log contains."""

from tests.mutants.mutation import Mutation as Bug

STATUS = "agentforge.model.status"
FAILURE = "agentforge.model.failure"
SESSION_NAME = "agentforge.model.names"
CONDITION = "agentforge.model.condition"
PATTERN = "agentforge.model.text_pattern"
HOOK_FACTS = "agentforge.model.facts.hook"
PLAN_LIMITS = "agentforge.model.plan_limits"

BUGS = (
    Bug(
        STATUS,
        "a completed run continues",
        "",
        "{_R.PENDING: frozenset({_R.RUNNING, _R.FAILED, _R.ABORTED}), _R.RUNNING: frozenset({_R.PAUSED, _R.AWAITING_APPROVAL, _R.COMPLETED, _R.FAILED, _R.ABORTED}), _R.PAUSED: frozenset({_R.RUNNING, _R.ABORTED}), _R.AWAITING_APPROVAL: frozenset({_R.RUNNING, _R.ABORTED}), _R.FAILED: frozenset({_R.RUNNING}), _R.COMPLETED: frozenset(), _R.ABORTED: frozenset()}",
        "{_R.PENDING: frozenset({_R.RUNNING, _R.FAILED, _R.ABORTED}), _R.RUNNING: frozenset({_R.PAUSED, _R.AWAITING_APPROVAL, _R.COMPLETED, _R.FAILED, _R.ABORTED}), _R.PAUSED: frozenset({_R.RUNNING, _R.ABORTED}), _R.AWAITING_APPROVAL: frozenset({_R.RUNNING, _R.ABORTED}), _R.FAILED: frozenset({_R.RUNNING}), _R.COMPLETED: frozenset({_R.RUNNING}), _R.ABORTED: frozenset()}",
    ),
    Bug(
        STATUS,
        "an aborted run continues",
        "",
        "{_R.PENDING: frozenset({_R.RUNNING, _R.FAILED, _R.ABORTED}), _R.RUNNING: frozenset({_R.PAUSED, _R.AWAITING_APPROVAL, _R.COMPLETED, _R.FAILED, _R.ABORTED}), _R.PAUSED: frozenset({_R.RUNNING, _R.ABORTED}), _R.AWAITING_APPROVAL: frozenset({_R.RUNNING, _R.ABORTED}), _R.FAILED: frozenset({_R.RUNNING}), _R.COMPLETED: frozenset(), _R.ABORTED: frozenset()}",
        "{_R.PENDING: frozenset({_R.RUNNING, _R.FAILED, _R.ABORTED}), _R.RUNNING: frozenset({_R.PAUSED, _R.AWAITING_APPROVAL, _R.COMPLETED, _R.FAILED, _R.ABORTED}), _R.PAUSED: frozenset({_R.RUNNING, _R.ABORTED}), _R.AWAITING_APPROVAL: frozenset({_R.RUNNING, _R.ABORTED}), _R.FAILED: frozenset({_R.RUNNING}), _R.COMPLETED: frozenset(), _R.ABORTED: frozenset({_R.RUNNING})}",
    ),
    Bug(STATUS, "any status transition is legal", "move", "to not in table[current]", "False"),
    Bug(
        STATUS,
        "a lost attempt can fail",
        "",
        "{_A.RUNNING: frozenset({_A.ENDING, _A.SUCCEEDED, _A.FAILED, _A.LOST}), _A.ENDING: frozenset({_A.CANCELLED, _A.SUCCEEDED, _A.FAILED, _A.LOST}), _A.FAILED: frozenset({_A.WAITING, _A.DUE, _A.SUCCEEDED}), _A.WAITING: frozenset({_A.DUE}), _A.SUCCEEDED: frozenset(), _A.DUE: frozenset(), _A.LOST: frozenset({_A.SUCCEEDED}), _A.CANCELLED: frozenset({_A.SUCCEEDED})}",
        "{_A.RUNNING: frozenset({_A.ENDING, _A.SUCCEEDED, _A.FAILED, _A.LOST}), _A.ENDING: frozenset({_A.CANCELLED, _A.SUCCEEDED, _A.FAILED, _A.LOST}), _A.FAILED: frozenset({_A.WAITING, _A.DUE, _A.SUCCEEDED}), _A.WAITING: frozenset({_A.DUE}), _A.SUCCEEDED: frozenset(), _A.DUE: frozenset(), _A.LOST: frozenset({_A.SUCCEEDED, _A.FAILED}), _A.CANCELLED: frozenset({_A.SUCCEEDED})}",
    ),
    Bug(
        STATUS,
        "a paused run can't be cancelled",
        "",
        "{_R.PENDING: frozenset({_R.RUNNING, _R.FAILED, _R.ABORTED}), _R.RUNNING: frozenset({_R.PAUSED, _R.AWAITING_APPROVAL, _R.COMPLETED, _R.FAILED, _R.ABORTED}), _R.PAUSED: frozenset({_R.RUNNING, _R.ABORTED}), _R.AWAITING_APPROVAL: frozenset({_R.RUNNING, _R.ABORTED}), _R.FAILED: frozenset({_R.RUNNING}), _R.COMPLETED: frozenset(), _R.ABORTED: frozenset()}",
        "{_R.PENDING: frozenset({_R.RUNNING, _R.FAILED, _R.ABORTED}), _R.RUNNING: frozenset({_R.PAUSED, _R.AWAITING_APPROVAL, _R.COMPLETED, _R.FAILED, _R.ABORTED}), _R.PAUSED: frozenset({_R.RUNNING}), _R.AWAITING_APPROVAL: frozenset({_R.RUNNING, _R.ABORTED}), _R.FAILED: frozenset({_R.RUNNING}), _R.COMPLETED: frozenset(), _R.ABORTED: frozenset()}",
    ),
    Bug(
        STATUS,
        "a completed iteration can fail",
        "",
        "{_I.STARTED: frozenset({_I.COMPLETED, _I.FAILED}), _I.FAILED: frozenset({_I.STARTED}), _I.COMPLETED: frozenset()}",
        "{_I.STARTED: frozenset({_I.COMPLETED, _I.FAILED}), _I.FAILED: frozenset({_I.STARTED}), _I.COMPLETED: frozenset({_I.FAILED})}",
    ),
    Bug(
        FAILURE,
        "a rate limit doesn't count as a limit",
        "",
        "{FailureKind.PROVIDER_QUOTA, FailureKind.PROVIDER_RATE_LIMITED}",
        "{FailureKind.PROVIDER_QUOTA}",
    ),
    Bug(
        SESSION_NAME,
        "session names aren't Unicode-normalized",
        "session_name",
        "unicodedata.normalize('NFC', text)",
        "text",
    ),
    Bug(
        SESSION_NAME,
        "a session name may escape its folder",
        "session_name",
        "not _SESSION.fullmatch(name)",
        "False",
    ),
    Bug(
        SESSION_NAME,
        "only the beginning of a session name is validated",
        "session_name",
        "_SESSION.fullmatch",
        "_SESSION.match",
    ),
    Bug(
        SESSION_NAME,
        "a session name may be too long for a file name",
        "session_name",
        "len(given) > MAX_SESSION_CHARS or len(given.encode('utf-8', 'replace')) > MAX_SESSION_BYTES",
        "len(given) > MAX_SESSION_CHARS",
    ),
    Bug(
        CONDITION,
        "a condition of any depth is accepted",
        "condition_problem",
        "depth > MAX_DEPTH or terms > MAX_LENGTH",
        "terms > MAX_LENGTH",
    ),
    Bug(
        CONDITION,
        "a quote in a text of a condition is not escaped",
        "_constant_text",
        "value.replace('\\\\', '\\\\\\\\').replace('\"', '\\\\\"')",
        "value.replace('\\\\', '\\\\\\\\')",
    ),
    Bug(PATTERN, "a pattern only matches at the start", "matches", "[*active, start]", "active or [start]"),
    Bug(
        PATTERN,
        "`$` matches anywhere",
        "_followed",
        "id(state) in found or (state.edge == '^' and (not at_start)) or (state.edge == '$' and (not at_end))",
        "id(state) in found or (state.edge == '^' and (not at_start))",
    ),
    Bug(
        HOOK_FACTS,
        "the delivery id of a log can be any path",
        "HookStarted.defect",
        "name_defect(self.delivery)",
        "name_defect()",
    ),
    Bug(
        PLAN_LIMITS,
        "the hooks of nested pipelines in a log are not checked",
        "_problems",
        "part.pipeline",
        "plan.pipeline",
    ),
)
