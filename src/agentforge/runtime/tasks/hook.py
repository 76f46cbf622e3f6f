"""Calls a hook: sends its webhook, runs its script under the supervisor, or calls its function.

A webhook or a function that an earlier engine was calling is lost: whether it had an effect is unknown. A
script is reattached to. In a replay nothing is called: the recorded answers are played.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from msgspec.structs import replace

from agentforge.engine.normalise import clean_output
from agentforge.model import facts as f
from agentforge.model.failure import Failure, short_message
from agentforge.model.hook import HookResult
from agentforge.model.task import HookTask
from agentforge.ports.host import Clock
from agentforge.ports.webhook import (
    WebhookAnswer,
    WebhookMessage,
    WebhookRefused,
    Webhooks,
    WebhookTimedOut,
)
from agentforge.runtime.hook_answer import (
    PlayedHooks,
    PlayedOutcome,
    as_recorded,
    checked_result,
    read_answer,
)
from agentforge.runtime.tasks.call import (
    Calls,
    Finished,
    Lost,
    TaskContext,
    TaskReport,
    exception_message,
)
from agentforge.runtime.tasks.script import ScriptCall, ScriptPerformer
from agentforge.system.work_limit import WorkLimit
from agentforge.views.history import History

log = logging.getLogger("agentforge.run")

HookCalls = Mapping[str, Callable[[HookTask], Awaitable[HookResult]]]
"""The hooks of one run that are functions of the program that embeds the engine, by the id of the hook. What
one raises is the failure of the hook."""


class HookPerformer(ScriptPerformer[HookTask]):
    def __init__(
        self,
        context: TaskContext,
        history: History,
        clock: Clock,
        *,
        scripts: Calls,
        webhooks: Webhooks,
        calls: HookCalls,
    ) -> None:
        """`scripts` calls the provider of scripts."""
        super().__init__(context, scripts)
        self._webhooks = webhooks
        self._functions = calls
        self._played = PlayedHooks(context.plan, context.cassette) if context.cassette else None
        """What a replay answers instead of calling anything."""
        self._history = history
        self._clock = clock

    async def perform(self, task: HookTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:
        if self._played is not None:
            return self._played.outcome(task)
        if task.hook.action == "script":
            return await super().perform(task, fresh=fresh, report=report)
        if task.ending or not fresh:
            fact: f.AnyFact = f.HookLost(**task.names)
        else:
            began = self._clock.monotonic()
            called = await (self._webhook(task) if task.hook.action == "webhook" else self._function(task))
            fact = replace(called, duration_ms=int((self._clock.monotonic() - began) * 1000))
        if self._context.recorder:
            self._context.recorder.ended(task, fact)
        return fact

    # -- webhooks

    async def _webhook(self, task: HookTask) -> PlayedOutcome:
        name = task.hook.secret
        secret = self._context.environ.get(name, "") if name else ""
        if name and not secret:
            return self._failed(task, f"{name}, which holds the signing secret, is not set")
        payload = {
            "session": self._context.plan.session.name,
            "stage": task.name,
            "iteration": task.iteration,
            "provider": task.provider,
            # Of the latest iteration.
            "summary": self._history.summary(task.at),
            "context": "\n".join(task.notes),
            "event": task.hook.point,
            "status": task.status,
            "hook": task.hook.id,
            "delivery": task.delivery,
            "attempt": task.attempt,
        }
        body, sent_at = msgspec.json.encode(payload), int(self._clock.now().timestamp())
        local = self._context.plan.is_local
        message = WebhookMessage(task.hook.url or "", body, task.delivery, sent_at, secret, local)
        match await self._webhooks.post(message, task.hook.seconds or 0):
            case WebhookTimedOut():
                return f.HookTimedOut(**task.names)
            case WebhookRefused(message=why, retry=retry, status=status):
                return self._failed(task, why, retry=retry, status=status)
            case WebhookAnswer(status=status, body=answer):
                return self._answered(task, answer, status)

    # -- scripts

    def _lost(self, task: HookTask, lost: Lost) -> f.HookLost:
        return f.HookLost(**task.names, started=lost.started)

    async def _not_started(self, task: HookTask, failure: Failure) -> f.HookFailed:
        return self._failed(task, failure.message)

    async def _finished(self, task: HookTask, ended: Finished) -> PlayedOutcome:
        record, result = ended.record, ended.result
        status, duration = result.exit_code, result.duration_ms
        if record is not None and record.status == "timeout":
            return f.HookTimedOut(**task.names, duration_ms=record.duration_ms)
        if record is not None and record.status == "spawn_failed":
            return self._failed(task, record.error or "it couldn't be started", duration=duration)
        if result.failure is not None:
            return self._failed(task, result.failure.message, status=status, duration=duration)
        return self._answered(task, result.output.encode("utf-8", "replace"), status, duration)

    def _script(self, task: HookTask) -> ScriptCall:
        hook, sandbox = task.hook, task.sandbox
        if sandbox is not None and hook.network:
            sandbox = replace(sandbox, network=True)
        return ScriptCall(
            run=hook.script or "",
            variables={
                "AGENT_PIPELINES_ITERATION": str(task.iteration),
                "AGENT_PIPELINES_CONTEXT": "\n".join(task.notes),
                "AGENTFORGE_HOOK": hook.id,
                "AGENTFORGE_EVENT": hook.point,
                "AGENTFORGE_HOOK_STATUS": task.status,
                "AGENTFORGE_DELIVERY": task.delivery,
            },
            passed=hook.environment,
            timeout=hook.seconds,
            sandbox=sandbox,
            once=hook.on_lost == "pause",
        )

    # -- functions

    async def _function(self, task: HookTask) -> PlayedOutcome:
        function = self._functions.get(task.hook.id)
        if function is None:
            return self._failed(task, "this process has no such hook")
        limit = WorkLimit(task.hook.seconds)
        try:
            async with limit:
                returned = await function(task)
        except Exception as error:
            if limit.expired():
                return f.HookTimedOut(**task.names)
            log.exception("hook %s raised", task.hook.id)
            why = f"{type(error).__name__}: {exception_message(error)}"
            return self._failed(task, why)
        try:
            result = checked_result(returned)
        except ValueError as error:
            log.error("hook %s: %s", task.hook.id, error)  # noqa: TRY400
            return self._failed(task, str(error))
        return self._completed(task, result)

    # -- outcomes

    def _answered(self, task: HookTask, text: bytes, status: int, duration_ms: int = 0) -> PlayedOutcome:
        """Of a service or a script."""
        try:
            result = read_answer(clean_output(text).text)
        except ValueError as error:
            return self._failed(task, str(error), status=status, duration=duration_ms)
        return self._completed(task, result, status, duration_ms)

    def _completed(
        self, task: HookTask, result: HookResult, status: int | None = None, duration_ms: int = 0
    ) -> f.HookCompleted:
        result = as_recorded(result, self._context.redactor)
        return f.HookCompleted(
            **task.names,
            action=result.action,
            reason=result.reason,
            context=result.context,
            answer=result.answer,
            text=result.text,
            status=status,
            duration_ms=duration_ms,
        )

    def _failed(
        self,
        task: HookTask,
        why: str,
        *,
        retry: bool = False,
        status: int | None = None,
        duration: int = 0,
    ) -> f.HookFailed:
        why = short_message(self._context.redactor.text(why))
        return f.HookFailed(**task.names, message=why, retry=retry, status=status, duration_ms=duration)
