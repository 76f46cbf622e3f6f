"""Calls the judge of a judgment stage: builds its prompt and interprets its answer.

The judge is a provider like any other; a program runs under the supervisor, so that a later engine reads its
answer instead of calling it again.
"""

import logging
import os
import secrets

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.node_identity import recorded_key
from agentforge.engine.normalise import clean_output, read_judgment
from agentforge.model import facts as f
from agentforge.model.layout import IterationLayout
from agentforge.model.result import Usage
from agentforge.model.task import MARK, JudgeTask
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.runtime.recorder import judge_failure
from agentforge.runtime.supervision import AttemptLimits
from agentforge.runtime.tasks.call import CallRefused, Calls, Finished, Lost, ProviderCall, TaskContext
from agentforge.runtime.tasks.performer import TaskReport
from agentforge.system import files
from agentforge.views.history import History
from agentforge.views.prompt import fill

log = logging.getLogger("agentforge.run")

TIMEOUT = 300.0
HISTORY_CHARS = 200_000
"""The maximum size of earlier outputs in the prompt; the latest are included first."""
MAX_TEXT = 1024 * 1024
MARKER_BYTES = 16
INVOKE_FAILED = "invoke_failed"
INVALID_JSON = "invalid_json"
ANSWER_CHARS = 200
"""What an error quotes of an answer that can't be read; judge.log has all of it."""


class FailedJudgment(Struct, frozen=True):
    """judge.json of a judge that failed."""

    stop: bool
    reason: str
    confidence: float
    error: str


class JudgePerformer:
    def __init__(
        self,
        context: TaskContext,
        calls: Calls,
        history: History,
    ) -> None:
        self._context = context
        self._calls = calls
        self._history = history

    async def perform(self, task: JudgeTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:
        """An error fails the judgment, never the stage."""
        call = replace(self._call(task), report=report)
        if task.ending:
            return self._outcome(task, await self._calls.end(call))
        if fresh:
            return self._outcome(task, await self._calls.make(call, lambda: self._request(task)))
        return self._outcome(task, await self._calls.reattach(call, lambda _pid: None))

    def _outcome(self, task: JudgeTask, ended: Finished | Lost | CallRefused) -> f.AnyFact:
        match ended:
            case Lost():
                return f.JudgeLost(task.attempt)
            case CallRefused(failure=failure):
                return self._judge_failed(task, failure.message)
            case Finished(record=record) if record is not None and record.status != "exited":
                return self._judge_failed(task, record.error or record.status)
            case Finished(result=result):
                return self._recorded(task, result, self._read(task, result))

    def _judge_failed(self, task: JudgeTask, why: str) -> f.JudgeCompleted:
        why = self._context.redactor.text(why)
        return self._recorded(task, judge_failure(why), self._failed(task, INVOKE_FAILED, why))

    def _recorded(self, task: JudgeTask, ended: ExecuteResult, fact: f.JudgeCompleted) -> f.JudgeCompleted:
        if self._context.recorder:
            self._context.recorder.judged(task, ended, fact)
        return fact

    def _call(self, task: JudgeTask) -> ProviderCall:
        return ProviderCall(
            by=task.by,
            place=self._here(task).judge_attempt(task.attempt),
            mark=task.mark(self._context.run_id),
            stage=task.name,
            limits=AttemptLimits(TIMEOUT),
            sandbox=task.node.sandbox,
            scope=task.place.scope,
        )

    def _read(self, task: JudgeTask, ended: ExecuteResult) -> f.JudgeCompleted:
        here, hide = self._here(task), self._context.redactor.text
        ended = replace(ended, output=hide(ended.output))
        said = clean_output(ended.output.encode("utf-8", "replace")).text
        files.replace(os.path.join(here.root, "judge.log"), said.encode())
        if ended.failure is not None or ended.exit_code != 0:
            why = ended.failure.message if ended.failure else f"exit status {ended.exit_code}"
            return self._failed(task, INVOKE_FAILED, hide(why), ended.usage)
        result = read_judgment(ended.output)
        if result is None:
            answer = said.strip()[:ANSWER_CHARS]
            why = (
                f"its answer is not JSON in the requested form: {answer!r}"
                if answer
                else "it returned no output"
            )
            return self._failed(task, INVALID_JSON, why, ended.usage)
        files.replace(here.judge, files.compact(result))
        return f.JudgeCompleted("success", result, task.attempt, ended.usage)

    def _failed(self, task: JudgeTask, reason: str, why: str, usage: Usage | None = None) -> f.JudgeCompleted:
        here, result = self._here(task), f.JudgeResult(stop=False, reason=reason)
        files.make_dir(here.root)
        files.replace(here.judge, files.compact(FailedJudgment(result.stop, reason, result.confidence, why)))
        log.warning("judging iteration %d failed: %s", task.iteration, why)
        return f.JudgeCompleted("failed", result, task.attempt, usage, why)

    def _here(self, task: JudgeTask) -> IterationLayout:
        return self._context.layout.iteration(task.place.folder, task.iteration)

    def _request(self, task: JudgeTask) -> ExecuteRequest:
        context, folder = self._context, self._here(task).judge_attempt(task.attempt).root
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
