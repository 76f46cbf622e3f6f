"""Bugs in the words of the domain: statuses, names, layout."""

from tests.mutants.mutation import Mutation as Bug

STATUS = "agentforge.model.status"
FAILURE = "agentforge.model.failure"
IDS = "agentforge.model.session_name"

BUGS = (
    Bug(
        STATUS,
        "a completed run goes on",
        "_R.COMPLETED: frozenset(),",
        "_R.COMPLETED: frozenset({_R.RUNNING}),",
    ),
    Bug(STATUS, "an aborted run goes on", "_R.ABORTED: frozenset(),", "_R.ABORTED: frozenset({_R.RUNNING}),"),
    Bug(STATUS, "any move is legal", "    if to not in table[current]:\n", "    if False:\n"),
    Bug(
        STATUS,
        "a lost attempt fails",
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
        "a completed iteration fails",
        "_I.COMPLETED: frozenset(),",
        "_I.COMPLETED: frozenset({_I.FAILED}),",
    ),
    Bug(
        FAILURE,
        "a rate limit isn't waited for",
        "frozenset({FailureKind.PROVIDER_QUOTA, FailureKind.PROVIDER_RATE_LIMITED})",
        "frozenset({FailureKind.PROVIDER_QUOTA})",
    ),
    Bug(
        IDS,
        "two spellings of a name are two sessions",
        'name = unicodedata.normalize("NFC", text)',
        "name = text",
    ),
    Bug(
        IDS,
        "a session's name may leave its folder",
        "    if not _SESSION.fullmatch(name):\n",
        "    if False:\n",
    ),
    Bug(
        IDS,
        "only the beginning of a session's name is looked at",
        "_SESSION.fullmatch(name)",
        "_SESSION.match(name)",
    ),
    Bug(
        IDS,
        "a session's name may be too long for a file",
        ' or len(name.encode("utf-8", "replace")) > MAX_SESSION_BYTES',
        "",
    ),
)
