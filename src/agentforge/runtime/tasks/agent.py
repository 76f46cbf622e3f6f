"""Performs an agent's attempt: starts it or reattaches to it, and concludes it."""

from collections.abc import Mapping, Set
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.node_identity import recorded_key
from agentforge.model import facts as f
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import Judgment, Queue, Termination
from agentforge.model.result import is_agent_session
from agentforge.model.secrets import references_in, resolve
from agentforge.model.task import MARK, AgentTask
from agentforge.ports.clock import Clock
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.runtime.attempt_folder import ExitRecord
from agentforge.runtime.conclusion import (
    Attempted,
    archive_leftovers,
    conclude,
    hide_secrets,
    note_attempt,
)
from agentforge.runtime.outbox import empty_outbox
from agentforge.runtime.supervision import AttemptLimits
from agentforge.runtime.tasks.call import (
    CallRefused,
    Calls,
    Finished,
    Lost,
    ProviderCall,
    TaskContext,
    writable_in,
)
from agentforge.runtime.tasks.performer import TaskReport
from agentforge.runtime.tasks.prepare import Prepared, Preparer, output_path
from agentforge.runtime.tasks.tree_record import TreeRecord

# A resumed session contains the task, but its last message may be an incomplete answer.
CONTINUE = """\
You worked on the task below earlier in this conversation, and it wasn't finished: you were interrupted, or
the result was missing. Check what is already done, in the conversation and in the working folder, do the
rest, and write the result as asked. The task was:

"""


class StageVariables(Struct, frozen=True):
    """Environment variables of a stage's attempts, the same for each of them."""

    references: frozenset[str]
    """Those whose values were in the definition of the stage."""
    given: dict[str, str]
    """Those that the engine adds."""


EARLIER = Prepared()
"""Of an attempt that an earlier engine started: nothing of it is in memory."""


class AgentPerformer:
    def __init__(
        self, context: TaskContext, calls: Calls, preparer: Preparer, clock: Clock, trees: TreeRecord
    ) -> None:
        self._context = context
        self._calls = calls
        self._preparer = preparer
        self._clock = clock
        self._trees = trees
        self._variables: dict[tuple[str, str | None], StageVariables] = {}

    async def perform(self, task: AgentTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:
        if not self._context.is_replay and not self._calls.runs_program(task.by.type):
            # What an in-process provider does is quick; a tree would cost more than its iteration.
            self._trees.forget()
            return await self._perform(task, fresh=fresh, report=report)
        if fresh and not task.ending:
            await self._trees.before(task.attempt, report)
        outcome = await self._perform(task, fresh=fresh, report=report)
        return await self._trees.after(task.attempt, outcome, report)

    async def _perform(self, task: AgentTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:
        if task.ending:
            return await self._end(task, report)
        if fresh:
            return await self._start(task, report)
        about = self._about(task)
        call = self._call(task, about, report)
        ended = await self._calls.reattach(call, lambda pid: report(f.AttemptReattached(task.attempt, pid)))
        return self._outcome(about, ended)

    async def _start(self, task: AgentTask, report: TaskReport) -> f.AnyFact:
        prepared = self._preparer.prepared(task)
        if isinstance(prepared, f.ErrorOccurred):
            return prepared
        about = self._about(task, prepared)
        call = self._call(task, about, report)
        ended = await self._calls.make(call, lambda: self._request(task, about))
        return self._outcome(about, ended)

    async def _end(self, task: AgentTask, report: TaskReport) -> f.AnyFact:
        about = self._about(task)
        ended = await self._calls.end(self._call(task, about, report))
        if isinstance(ended, Finished):
            return self._outcome(about, ended)
        empty_outbox(about.outbox, about.here, about.number, about.progress)
        hide_secrets(about)
        note_attempt(about, "cancelled", None, self._clock.now())
        return f.AttemptCancelled(about.number, "ended on request", ended.agent_session)

    def _outcome(self, about: Attempted, ended: Finished | Lost | CallRefused) -> f.AnyFact:
        if not (isinstance(ended, Finished) and ended.record is None):  # Only programs use it.
            empty_outbox(about.outbox, about.here, about.number, about.progress)
        match ended:
            case CallRefused(failure=failure):
                return self._concluded(replace(about, started=False), ExecuteResult(failure=failure))
            case Lost():
                return self._lost(about, ended)
            case Finished(result=result, record=record):
                known = _supervisor_failure(record, about) if record else None
                if record is not None and known is not None:
                    result = replace(result, failure=known, exit_code=record.exit_code or 0)
                    about = replace(about, started=record.status != "spawn_failed")
                about = replace(about, repeatable=record is not None, agent_session=ended.agent_session)
                return self._concluded(about, result)

    def _concluded(self, about: Attempted, ended: ExecuteResult) -> f.AnyFact:
        recorder = self._context.recorder
        draft = recorder.draft(about, ended) if recorder else None
        fact = conclude(about, ended, self._clock.now())
        if recorder is not None and draft is not None:
            recorder.keep(draft, about, fact)
        return fact

    def _lost(self, about: Attempted, lost: Lost) -> f.AttemptLost:
        hide_secrets(about)
        note_attempt(about, "lost", None, self._clock.now())
        if self._context.recorder:
            self._context.recorder.forget(about)
        return f.AttemptLost(about.number, lost.reason, lost.started, lost.agent_session)

    def _about(self, task: AgentTask, prepared: Prepared = EARLIER) -> Attempted:
        context, node = self._context, task.node
        light = self._preparer.is_light(task.place, node)
        here = context.layout.iteration(task.place.folder, task.iteration)
        return Attempted(
            node=node,
            by=task.by,
            here=here,
            folder=context.layout.relative(here.root),
            iteration=task.iteration,
            number=task.attempt,
            started_at=task.started_at,
            timeout=task.timeout,
            project=context.project,
            mark=task.mark(context.run_id),
            progress=context.layout.progress(context.plan.mode, task.place.folder, task.place.scope),
            output_path=output_path(context.project, node, context.plan.session.name),
            copies=context.copies,
            honors_promise=context.plan.mode == "loop" and isinstance(node.termination, Queue),
            redactor=context.redactor,
            at=task.place,
            prompt=prepared.prompt,
            light=light,
            is_clean=prepared.is_new or light,
        )

    def _call(self, task: AgentTask, about: Attempted, report: TaskReport) -> ProviderCall:
        return ProviderCall(
            by=task.by,
            place=about.place,
            mark=about.mark,
            stage=task.name,
            limits=AttemptLimits(task.timeout, task.idle_timeout),
            sandbox=task.node.sandbox,
            scope=task.place.scope,
            writable=writable_in(about.here, about.progress),
            before=task.before,
            once=task.node.semantics == "at_most_once",
            report=report,
        )

    def _request(self, task: AgentTask, about: Attempted) -> ExecuteRequest:
        archive_leftovers(about)
        context, here = self._context, about.here
        # The id is from the log, which may have been written elsewhere.
        resume = task.resume if task.resume and is_agent_session(task.resume) else ""
        stage = self._stage_variables(task)
        values = self._values_of(stage.references | references_in(about.prompt))
        prompt = resolve(about.prompt, values)
        return ExecuteRequest(
            prompt=CONTINUE + prompt if resume else prompt,
            model=task.by.model,
            config=_resolved(task.by.config, values) if values else task.by.config,
            workdir=context.project,
            environment={
                **values,
                **stage.given,
                MARK: about.mark,
                "MOCK_STATUS_FILE": here.status,
                "MOCK_RESULT_FILE": here.result,
                "MOCK_ITERATION": str(task.iteration),
                "MOCK_PROVIDER": task.by.type,
            },
            status_path=here.status,
            result_path=here.result,
            session=context.plan.session.name,
            stage=task.name,
            iteration=task.iteration,
            attempt=task.attempt,
            prompt_path=here.prompt,
            context_path=here.context,
            progress_path=about.progress,
            outbox="" if about.light else about.outbox,
            resume=resume,
            node=recorded_key(context.plan, task.place.path, task.place.run),
            branch=task.place.branch or "",
            verdicts=task.node.allowed_verdicts if task.node.expects_verdict else (),
        )

    def _stage_variables(self, task: AgentTask) -> StageVariables:
        at = (task.place.path, task.place.branch)
        known = self._variables.get(at)
        if known is None:
            named = references_in(msgspec.json.encode(task.node).decode())
            references = named.intersection(self._context.plan.pipeline.secrets)
            given = {**self._context.environment, **_limit_variables(task.node.termination)}
            known = self._variables[at] = StageVariables(references, given)
        return known

    def _values_of(self, names: Set[str]) -> dict[str, str]:
        """The values of secrets that were in the definition of the stage or in what people said."""
        environ = self._context.environ
        if missing := sorted(names - environ.keys()):
            raise ProviderUnusable(
                f"the prompt or the settings contained the value of {missing[0]}, which is not set",
                hint=f"set {missing[0]} (to continue without it, to an empty text), then resume the run",
            )
        return {name: environ[name] for name in sorted(names)}


def _resolved(value: Any, values: Mapping[str, str]) -> Any:
    match value:
        case str():
            return resolve(value, values)
        case dict():
            return {key: _resolved(item, values) for key, item in value.items()}
        case list() | tuple():
            return type(value)(_resolved(item, values) for item in value)
        case _:
            return value


def _limit_variables(termination: Termination) -> dict[str, str]:
    """The termination settings, in the variables that the shell engine sets for agents."""
    judged = termination if isinstance(termination, Judgment) else Judgment(termination.max)
    return {
        "MAX_ITERATIONS": str(termination.max),
        "MIN_ITERATIONS": str(judged.judged_from),
        "CONSENSUS": str(judged.required_stops),
    }


def _supervisor_failure(record: ExitRecord, about: Attempted) -> Failure | None:
    """A failure that the supervisor recorded, or None."""
    match record.status:
        case "timeout":
            limit = _limit_reached(record, about)
            return Failure(FailureKind.ITERATION_TIMEOUT, f"the agent was ended after {limit}")
        case "idle":
            idle = about.node.idle_timeout
            known = f"for {idle:g} s" if idle else "for as long as its provider allows"
            return Failure(FailureKind.PROVIDER_TIMEOUT, f"the agent produced no output {known}")
        case "spawn_failed":
            return Failure(FailureKind.PROVIDER_MISSING, record.error or "the agent couldn't be started")
    return None


def _limit_reached(record: ExitRecord, about: Attempted) -> str:
    # The record's duration is truncated to whole milliseconds.
    if about.timeout is None or record.duration_ms + 1 < about.timeout * 1000:
        return f"the time limit of provider {about.by.type!r} ({record.duration_ms / 1000:.1f} s in all)"
    return f"{about.node.timeout:g} s" if about.node.timeout else "the runtime limit"
