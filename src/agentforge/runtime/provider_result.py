"""What a provider returned, made safe to record: of the right types and of bounded size.

A provider is code of the user, or reads what an agent printed. A mistake in either fails the attempt, never
the engine.
"""

import logging
import math
from datetime import datetime

import msgspec
from msgspec.structs import replace

from agentforge.model.failure import Failure, FailureKind, short_message
from agentforge.model.result import JSONObject, Usage, is_agent_session
from agentforge.ports.provider import ExecuteResult
from agentforge.runtime.artifacts import plain
from agentforge.runtime.conclusion import MAX_RESULT_BYTES

log = logging.getLogger("agentforge.run")

MAX_COUNT = 2**53 - 1
"""The largest number that every reader of JSON can represent."""
MAX_MODEL_CHARS = 200

Types = tuple[tuple[str, tuple[type, ...]], ...]
_NONE = type(None)
RESULT_TYPES: Types = (
    ("output", (str,)),
    ("exit_code", (int,)),
    ("duration_ms", (int,)),
    ("result", (dict, _NONE)),
    ("artifact", (dict, _NONE)),
    ("usage", (Usage, _NONE)),
    ("failure", (Failure, _NONE)),
)
FAILURE_TYPES: Types = (
    ("kind", (FailureKind,)),
    ("message", (str,)),
    ("exit_code", (int, _NONE)),
    ("resets_at", (datetime, _NONE)),
)


def mistaken(provider: str, problem: str) -> ExecuteResult:
    """The failure of a provider that doesn't keep to its contract."""
    return ExecuteResult(failure=Failure(FailureKind.PROVIDER_CRASHED, f"{provider}: {problem}"))


def checked(returned: object, provider: str) -> ExecuteResult:
    if not isinstance(returned, ExecuteResult):
        return mistaken(provider, f"it returned {type(returned).__name__}, not an ExecuteResult")
    problem = _mistyped(returned, RESULT_TYPES)
    if not problem and returned.failure is not None:
        problem = _mistyped(returned.failure, FAILURE_TYPES, "failure.")
    if problem:
        return mistaken(provider, problem)
    if returned.result is not None and (problem := _result_problem(returned.result)):
        invalid = Failure(FailureKind.RESULT_INVALID, f"{provider} returned {problem}")
        returned = replace(returned, result=None, failure=returned.failure or invalid)
    if returned.artifact is not None:
        artifact = plain(returned.artifact)
        if isinstance(artifact, str):
            invalid = Failure(FailureKind.ARTIFACT_INVALID, f"{provider} returned no artifact: {artifact}")
            returned = replace(returned, artifact=None, failure=returned.failure or invalid)
        else:
            returned = replace(returned, artifact=artifact)
    usage = returned.usage and checked_usage(returned.usage)
    failure = returned.failure
    if failure is not None:
        failure = replace(failure, message=short_message(failure.message))
    if usage == returned.usage and failure == returned.failure and 0 <= returned.duration_ms <= MAX_COUNT:
        return returned
    duration = min(max(returned.duration_ms, 0), MAX_COUNT)
    return replace(returned, usage=usage, failure=failure, duration_ms=duration)


def _mistyped(value: object, expected: Types, prefix: str = "") -> str:
    """The first field with a value of another type, or ""."""
    for name, types in expected:
        found = getattr(value, name)
        if not isinstance(found, types):
            return f"`{prefix}{name}` of its result is of type {type(found).__name__}"
    return ""


def _result_problem(result: JSONObject) -> str:
    try:
        size = len(msgspec.json.encode(result))
    except (TypeError, ValueError, RecursionError) as error:
        return f"a result that is not JSON: {error}"
    return f"a result of {size:,} bytes; at most 1 MB is accepted" if size > MAX_RESULT_BYTES else ""


def checked_usage(usage: Usage) -> Usage:
    """An agent chooses its session's id, which becomes an argument of the next attempt, and numbers, which
    are added up."""
    session = usage.agent_session
    if session is not None and not (isinstance(session, str) and is_agent_session(session)):
        log.warning("an invalid agent session id is ignored: %.200r", session)
        session = None
    return Usage(
        input_tokens=_count(usage.input_tokens),
        output_tokens=_count(usage.output_tokens),
        cached_tokens=_count(usage.cached_tokens),
        cost_usd=_cost(usage.cost_usd),
        model=short_message(usage.model, MAX_MODEL_CHARS) if isinstance(usage.model, str) else None,
        agent_session=session,
    )


def _count(given: object) -> int | None:
    # A bool is an int, too.
    is_count = isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= MAX_COUNT
    return given if is_count else None  # type: ignore[return-value]


def _cost(given: object) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(given) if 0 <= given <= MAX_COUNT and math.isfinite(given) else None
