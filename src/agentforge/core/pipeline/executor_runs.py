"""Runs the executor of a stage for the engine: from the stage's input to the outcome of an attempt."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentforge import AgentForgeError, artifact, plain_data
from agentforge.core.pipeline.results import StageResult
from agentforge.core.pipeline.stage_context import DEFAULT_TIMEOUT, DEFAULT_TOKENS
from agentforge.core.pipeline.stage_executor import StageContext, StageExecutor, failure_text
from agentforge.provider import (
    ExecuteResult,
    Failure,
    FailureKind,
    MissingKey,
    ProviderUnusable,
    StageInput,
)

log = logging.getLogger("agentforge.core.pipeline")

QUESTION_ANSWERS = "question_answers"
"""In the input of a stage that has asked."""

# An exception is worth another attempt, as the cause may pass. A failed result is what the executor itself
# concluded: another attempt would conclude it again. An escalation is a question like that of an agent: the
# answer is recorded, and the stage runs again with it.


def run_executor(
    executor: StageExecutor, given: StageInput, *, session: str, stage: str, project: str
) -> ExecuteResult:
    """One attempt. Exceptions of the executor are failures in the result."""
    context = context_of(given, session=session, stage=stage, project=project)
    try:
        returned: object = executor.run(context)
    except MissingKey as error:
        return _failed(FailureKind.PROVIDER_AUTH, _text(error))
    except ProviderUnusable as error:
        return _failed(FailureKind.PROVIDER_MISSING, _text(error))
    except (Exception, SystemExit) as error:
        log.debug("stage %s raised", stage, exc_info=error)
        return _failed(FailureKind.EXECUTOR_FAILED, _raised(error))
    if not isinstance(returned, StageResult):
        name = type(executor).__name__
        problem = f"{name} returned {type(returned).__name__}, not a StageResult"
        return _failed(FailureKind.AGENT_ERROR, problem)
    return outcome_of(returned, given)


def context_of(given: StageInput, *, session: str, stage: str, project: str) -> StageContext:
    answers = {QUESTION_ANSWERS: dict(given.answers)} if given.answers else {}
    said = "\n".join(filter(None, (given.feedback, *given.answers.values())))
    return StageContext(
        pipeline_id=session,
        pipeline_type=given.pipeline,
        stage_name=stage,
        stage_index=given.index,
        input_artifact={**given.artifact, **answers},
        user_request=given.user_request,
        project_path=Path(project),
        agentforge_path=Path(project) / ".agentforge",
        completed_stages=list(given.artifacts),
        stage_artifacts=given.artifacts,
        iteration=given.visit - 1,
        previous_feedback=said or None,
        previous_attempt=given.previous,
        timeout_seconds=DEFAULT_TIMEOUT if given.timeout is None else round(given.timeout),
        max_tokens=DEFAULT_TOKENS if given.max_tokens is None else given.max_tokens,
    )


def outcome_of(returned: StageResult, given: StageInput) -> ExecuteResult:
    if returned.escalation_reason is not None:
        question = _not_answered(returned.escalation_reason, given.answers)
        asked = {"decision": "ask", "questions": [{"question": question}], "errors": returned.warnings}
        return ExecuteResult(question, usage=returned.usage, result=asked)
    if not returned.success:
        problem = returned.error or "the executor failed and gave no reason"
        return _failed(FailureKind.AGENT_ERROR, problem, returned)
    if returned.artifact is None:
        return _failed(FailureKind.AGENT_ERROR, "no artifact produced", returned)
    summary = returned.artifact.get("summary")
    result = {"summary": summary if isinstance(summary, str) else "", "errors": returned.warnings}
    try:
        left = _own(returned.artifact, given)
    except AgentForgeError as error:
        return _failed(FailureKind.AGENT_ERROR, f"the artifact can't be kept: {error.message}", returned)
    return ExecuteResult(usage=returned.usage, result=result, artifact=left)


def _not_answered(reason: str, answers: Mapping[str, str]) -> str:
    """A question that was answered before is another one when it is asked again."""
    known = {_words(question) for question in answers}
    reason = reason.strip() or "the stage needs a decision"
    asked, number = reason, 1
    while _words(asked) in known:
        number += 1
        asked = f"{reason} (asked again: {number})"
    return asked


def _words(text: str) -> str:
    return " ".join(text.split()).casefold()


def _own(left: dict[str, Any], given: StageInput) -> dict[str, Any]:
    """The artifact as plain data, without the keys of the engine, which an executor repeats if it carries its
    input forward."""
    plain: dict[str, Any] = plain_data(left)
    own = {key for key in plain if artifact.is_of_engine(key)}
    for key in sorted(own & given.artifact.keys()):
        if plain[key] != given.artifact[key]:
            log.warning("%s of the artifact is ignored: the engine sets it", key)
    return {key: value for key, value in plain.items() if key not in own and key != QUESTION_ANSWERS}


def _failed(kind: FailureKind, message: str, returned: StageResult | None = None) -> ExecuteResult:
    usage = returned.usage if returned else None
    return ExecuteResult(usage=usage, failure=Failure(kind, message))


def _raised(error: BaseException) -> str:
    return (
        _text(error)
        if isinstance(error, AgentForgeError)
        else f"{type(error).__name__}: {failure_text(error)}"
    )


def _text(error: AgentForgeError) -> str:
    return f"{error.message}; {error.hint}".rstrip("; ")
