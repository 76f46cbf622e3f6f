"""Calls the judge of a judgment stage: builds its prompt and interprets its answer.

The judge is a provider like any other; a program runs under the supervisor, so that a later engine reads its
answer instead of calling it again.
"""

import logging
import os
import secrets

from msgspec.structs import replace

from agentforge.engine.decide.termination import JUDGE_TIMEOUT
from agentforge.engine.nodes import recorded_key
from agentforge.engine.normalise import clean_output, read_judgment
from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.layout import IterationLayout
from agentforge.model.result import Usage
from agentforge.model.task import MARK, JudgeTask
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.runtime.attempt_folder import ExitRecord
from agentforge.runtime.supervision import AttemptLimits
from agentforge.runtime.tasks.call import Calls, Ended, Finished, ProviderCall, TaskContext
from agentforge.runtime.tasks.performer import CallPerformer
from agentforge.system import files
from agentforge.views.history import History
from agentforge.views.prompt import fill

log = logging.getLogger("agentforge.run")

HISTORY_CHARS = 200_000
"""The maximum size of earlier outputs in the prompt; the latest are included first."""
MAX_TEXT = 1024 * 1024
MARKER_BYTES = 16
INVOKE_FAILED = "invoke_failed"
INVALID_JSON = "invalid_json"
ANSWER_CHARS = 200
"""What an error quotes of an answer that can't be read; judge.log has all of it."""


class JudgePerformer(CallPerformer[JudgeTask]):
    """An error fails the judgment, never the stage."""

    def __init__(self, context: TaskContext, calls: Calls, history: History) -> None:
        super().__init__(context, calls)
        self._history = history

    async def _not_started(self, task: JudgeTask, failure: Failure) -> f.JudgeCompleted:
        return self._failed(task, INVOKE_FAILED, self._context.redactor.text(failure.message))

    def _record(self, task: JudgeTask, ended: Ended, fact: f.AnyFact) -> None:
        if self._context.recorder is None:
            return
        error = fact.error if isinstance(fact, f.JudgeCompleted) else ""
        said = ExecuteResult(failure=Failure(FailureKind.JUDGE_FAILED, error))
        if isinstance(ended, Finished) and _has_exited(ended.record):
            said = ended.result
        self._context.recorder.ended(task, fact, said)

    def _call(self, task: JudgeTask) -> ProviderCall:
        return ProviderCall(
            by=task.by,
            place=task.folder(self._context.layout),
            mark=task.mark(self._context.run_id),
            stage=task.name,
            limits=AttemptLimits(JUDGE_TIMEOUT),
            sandbox=task.node.sandbox,
            scope=task.place.scope,
            budget=task.budget,
        )

    async def _finished(self, task: JudgeTask, ended: Finished) -> f.JudgeCompleted:
        result, record = ended.result, ended.record
        here, hide = self._here(task), self._context.redactor.text
        if record is not None and not _has_exited(record):
            return self._failed(task, INVOKE_FAILED, hide(record.error or record.status))
        result = replace(result, output=hide(result.output))
        said = clean_output(result.output.encode("utf-8", "replace")).text
        files.replace(os.path.join(here.root, "judge.log"), said.encode())
        if result.failure is not None or result.exit_code != 0:
            why = result.failure.message if result.failure else f"exit status {result.exit_code}"
            failed = self._failed(task, INVOKE_FAILED, hide(why), result.usage)
            is_at_cap = result.failure is not None and result.failure.kind is FailureKind.CAP_REACHED
            return replace(failed, capped=is_at_cap and task.budget is not None)
        judgment = read_judgment(result.output)
        if judgment is None:
            answer = said.strip()[:ANSWER_CHARS]
            why = (
                f"its answer is not JSON in the requested form: {answer!r}"
                if answer
                else "it returned no output"
            )
            return self._failed(task, INVALID_JSON, why, result.usage)
        files.replace(here.judge, files.compact(judgment))
        return f.JudgeCompleted("success", judgment, task.attempt, result.usage)

    def _failed(self, task: JudgeTask, reason: str, why: str, usage: Usage | None = None) -> f.JudgeCompleted:
        here, result = self._here(task), f.JudgeResult(stop=False, reason=reason)
        files.make_dir(here.root)
        # Like the judgment of one that succeeded, with the reason why there is none.
        failed = {"stop": False, "reason": reason, "confidence": result.confidence, "error": why}
        files.replace(here.judge, files.compact(failed))
        log.warning("judging iteration %d failed: %s", task.iteration, why)
        return f.JudgeCompleted("failed", result, task.attempt, usage, why)

    def _here(self, task: JudgeTask) -> IterationLayout:
        return self._context.layout.iteration(task.place.folder, task.iteration)

    def _request(self, task: JudgeTask) -> ExecuteRequest:
        context, folder = self._context, task.folder(self._context.layout).root
        files.make_dir(folder)
        # A judge answers on stdout; any result files that it writes are not the iteration's.
        return ExecuteRequest(
            prompt=self._prompt(task),
            model=task.by.model,
            config=task.by.config,
            workdir=context.project,
            environment={
                **context.environment,
                MARK: task.mark(context.run_id),
                "MOCK_ITERATION": str(task.iteration),
                "MOCK_PROVIDER": "judge",
            },
            status_path=os.path.join(folder, "status.json"),
            result_path=os.path.join(folder, "result.json"),
            session=context.plan.session.name,
            stage=task.name,
            iteration=task.iteration,
            attempt=task.attempt,
            node=recorded_key(context.plan, task.place.path, task.place.run),
            branch=task.place.branch or "",
            judges=True,
            budget=task.budget,
        )

    def _prompt(self, task: JudgeTask) -> str:
        layout, place, node = self._context.layout, task.place, task.node
        progress = layout.progress(self._context.plan.mode, place.folder, place.scope)
        earlier = self._history.stage(place.path, place.branch, place.run).located(layout)
        return fill(
            self._context.plan.judge_prompt,
            {
                # The material can't contain it, and so can't pretend to end.
                "MARKER": secrets.token_hex(MARKER_BYTES),
                "STAGE_NAME": node.label,
                "ITERATION": str(task.iteration),
                "GOAL": node.description or node.context or "",
                "RESULT_JSON": _text(self._here(task).result),
                "PROGRESS_TEXT": _text(progress),
                "HISTORY": _history(earlier.paths),
            },
        )


def _has_exited(record: ExitRecord | None) -> bool:
    return record is None or record.status == "exited"


def _text(path: str) -> str:
    """What the judge is shown of a file, empty if it can't be read: agents can write there."""
    return files.read_part(path, 0, MAX_TEXT)[0].decode("utf-8", "replace")


def _history(outputs: list[str]) -> str:
    """Earlier outputs, oldest first; the oldest are omitted if there are too many."""
    kept: list[str] = []
    room = HISTORY_CHARS
    for path in reversed(outputs):
        text = _text(path)
        room -= len(text)
        if room < 0:
            kept.append(f"({len(outputs) - len(kept)} earlier outputs omitted)")
            break
        kept.append(f"### {os.path.basename(os.path.dirname(path))}\n\n{text.strip()}\n")
    return "\n".join(reversed(kept))
