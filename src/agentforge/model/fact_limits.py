"""Checks facts that are read from a log and become paths: a log may have come with a repository."""

from agentforge.model.errors import InvalidSession
from agentforge.model.facts import (
    AnyFact,
    HookStarted,
    LogImported,
    NodeStarted,
    PlanChanged,
    ProviderStarted,
    RequestOpened,
    SessionStarted,
)
from agentforge.model.layout import is_inside
from agentforge.model.plan_limits import is_directory_name, plan_problem
from agentforge.model.session_name import session_name
from agentforge.model.state import BlockState, StageState

CHECKED = frozenset(
    {SessionStarted, PlanChanged, LogImported, NodeStarted, ProviderStarted, RequestOpened, HookStarted}
)
"""The only facts that need a check; all others are passed without one."""


def fact_problem(fact: AnyFact, session: str) -> str:
    """Why the fact can't be one that an engine recorded; empty if it can. `session` is that of its event."""
    match fact:
        case SessionStarted(plan=plan):
            return _plan_problem(plan_problem(plan)) or _session_problem(session)
        case PlanChanged(plan=plan):
            return _plan_problem(plan_problem(plan))
        case LogImported(plan=plan, at=at):
            folder = at.folder if isinstance(at, StageState | BlockState) else ""
            return _plan_problem(plan_problem(plan)) or _folder_problem(folder)
        case NodeStarted(folder=folder, providers=providers):
            return _folder_problem(folder) or _names_problem(providers)
        case ProviderStarted(provider=provider):
            return _names_problem((provider,))
        case RequestOpened(id=id) | HookStarted(delivery=id):
            return _names_problem((id,))
    return ""


def _plan_problem(problem: str) -> str:
    return f"its plan is not valid: {problem}" if problem else ""


def _folder_problem(folder: str) -> str:
    return "" if is_inside(folder) else f"its folder is outside the run: {folder!r}"


def _names_problem(names: tuple[str, ...]) -> str:
    wrong = [name for name in names if not is_directory_name(name)]
    return f"{wrong[0]!r} cannot be used as a directory name" if wrong else ""


def _session_problem(session: str) -> str:
    try:
        session_name(session)
    except InvalidSession as error:
        return error.message
    return ""
