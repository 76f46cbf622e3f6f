"""Which session a command means: the one that is named, or the only one that fits."""

from collections.abc import Collection, Sequence

from agentforge.cli.invocation import Invocation
from agentforge.model.errors import InvalidRequest
from agentforge.sdk.results import RunRow

LOOKED_AT = 50
"""Runs that are considered when none is named, the latest first."""


def chosen(call: Invocation, named: str | None, fitting: Collection[str], doing: str) -> str:
    """`fitting`: the statuses that make sense for what is being done, as in `to resume`."""
    if named is not None:
        return named
    rows = [row for row in call.runs.rows(LOOKED_AT) if row.kept_from is None]
    fit = [row for row in rows if row.status in fitting]
    if len(fit) == 1:
        return fit[0].session
    if not fit:
        raise InvalidRequest(f"there is no session {doing} in {call.root}", hint=_known(rows))
    raise InvalidRequest(
        f"several sessions are there {doing}: {_named(fit)}", hint="name one of them, as in the list"
    )


def to_look_at(call: Invocation, named: str | None) -> str:
    """For commands that only look: the only run that isn't over, else the only one at all."""
    if named is not None:
        return named
    rows = [row for row in call.runs.rows(LOOKED_AT) if row.kept_from is None]
    going_on = [row for row in rows if row.status not in ("completed", "aborted")]
    for fit in (going_on, rows):
        if len(fit) == 1:
            return fit[0].session
    if not rows:
        raise InvalidRequest(f"there are no sessions in {call.root} yet", hint=_known(rows))
    raise InvalidRequest(f"which session? {_named(going_on or rows)}", hint="name one of them")


def _named(rows: Sequence[RunRow]) -> str:
    return ", ".join(f"{row.session} ({row.status})" for row in rows)


def _known(rows: Sequence[RunRow]) -> str:
    if not rows:
        return "begin one with `agentforge run -p FILE`"
    return f"the latest: {_named(rows[:5])}"
