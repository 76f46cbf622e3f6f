"""Performs an agent's attempt: starts it or reattaches to it, and concludes it."""

import asyncio
from collections.abc import Mapping, Set
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.nodes import recorded_key
from agentforge.model import facts as f
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import Judgment, Queue
from agentforge.model.result import is_agent_session
from agentforge.model.secrets import references_in, resolve
from agentforge.model.task import MARK, AgentTask
from agentforge.ports.host import Clock, NoTree, TakenTree, Trees
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.runtime.artifacts import ArtifactRules
from agentforge.runtime.attempt_folder import ExitRecord, empty_outbox, outbox_of
from agentforge.runtime.conclusion import (
    Attempted,
    archive_leftovers,
    conclude,
    hide_secrets,
    note_attempt,
)
from agentforge.runtime.supervision import AttemptLimits
from agentforge.runtime.tasks.call import (
    Calls,
    Ended,
    Finished,
    Lost,
    ProviderCall,
    TaskContext,
    TaskReport,
)
from agentforge.runtime.tasks.performer import CallPerformer
from agentforge.runtime.tasks.prepare import Preparer, output_path
from agentforge.views.prompt import healing_text

# A resumed session contains the task, but its last message may be an incomplete answer.
CONTINUE = """\
You worked on the task below earlier in this conversation, and it wasn't finished: you were interrupted, or
the result was missing. Check what is already done, in the conversation and in the working folder, do the
rest, and write the result as asked. The task was:

"""


FRESH_SECONDS = 1.0
"""A tree that was recorded this recently is that before the next attempt, too."""
_OUTCOMES = f.IterationCompleted | f.ErrorOccurred | f.AttemptLost | f.AttemptCancelled


class TreeRecord:
    """Records the tree of the project's files before and after the attempts of agents.

    After an attempt, its outcome carries the tree. Before one, the tree is a fact of its own, and only if
    something else than the attempts changed the files: usually, the tree before is the latest one.
    """

    def __init__(self, trees: Trees, clock: Clock, fresh: float = FRESH_SECONDS) -> None:
        """`fresh`: for how many seconds a tree is that before the next attempt, too."""
        self._fresh = fresh
        self._trees = trees
        self._clock = clock
        self._latest: TakenTree | NoTree | None = None
        """As recorded last by this engine."""
        self._taken_at = 0.0

    async def before(self, attempt: int, report: TaskReport) -> None:
        """Record the tree before the agent starts, durably."""
        age = self._clock.monotonic() - self._taken_at
        if not self._trees.is_possible() or (self._latest is not None and age < self._fresh):
            return
        before, taken = self._latest, await self._take()
        if taken != before:
            report(_tree_fact(attempt, taken))

    async def after(self, attempt: int, outcome: f.AnyFact, report: TaskReport) -> f.AnyFact:
        """The outcome of the attempt, with its tree. Repeated after a crash, it is that of the files then."""
        if not isinstance(outcome, _OUTCOMES) or not getattr(outcome, "started", True):
            return outcome
        if not self._trees.is_possible():
            return outcome
        before = self._latest
        try:
            taken = await self._take()
        except asyncio.CancelledError:
            # The attempt has ended: its outcome counts.
            self.forget()
            return outcome
        if isinstance(taken, TakenTree):
            return replace(outcome, tree=taken.id)
        if taken != before:
            report(replace(_tree_fact(attempt, taken), when="after"))
        return outcome

    def forget(self) -> None:
        """Something else may change the files from now on."""
        self._latest = None

    async def _take(self) -> TakenTree | NoTree:
        taken = await asyncio.to_thread(self._trees.take)
        self._latest, self._taken_at = taken, self._clock.monotonic()
        return taken


def _tree_fact(attempt: int, taken: TakenTree | NoTree) -> f.TreeTaken:
    if isinstance(taken, NoTree):
        return f.TreeTaken(attempt, problem=taken.reason)
    return f.TreeTaken(attempt, tree=taken.id, omitted=taken.omitted)


class StageVariables(Struct, frozen=True):
    """Environment variables of a stage's attempts, the same for each of them."""

    references: frozenset[str]
    """Those whose values were in the definition of the stage."""
    given: dict[str, str]
    """Those that the engine adds."""


class AgentPerformer(CallPerformer[AgentTask]):
    def __init__(
        self,
        context: TaskContext,
        calls: Calls,
        preparer: Preparer,
        clock: Clock,
        trees: TreeRecord,
        *,
        always: bool = False,
        artifacts: ArtifactRules | None = None,
    ) -> None:
        """`always`: whether the tree is recorded whatever the provider is."""
        super().__init__(context, calls)
        self._is_recorded = always
        self._preparer = preparer
        self._artifacts = artifacts
        self._clock = clock
        self._trees = trees
        self._variables: dict[tuple[str, str | None], StageVariables] = {}

    async def perform(self, task: AgentTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:
        is_played = self._context.cassette is not None
        if not (is_played or self._is_recorded or self._calls.runs_program(task.by.type)):
            # What an in-process provider does is quick; a tree would cost more than its iteration.
            self._trees.forget()
            return await super().perform(task, fresh=fresh, report=report)
        if fresh and not task.ending:
            await self._trees.before(task.attempt, report)
        outcome = await super().perform(task, fresh=fresh, report=report)
        return await self._trees.after(task.attempt, outcome, report)

    async def _prepared(self, task: AgentTask, report: TaskReport) -> AgentTask | f.ErrorOccurred:  # noqa: ARG002
        prepared = self._preparer.prepared(task)
        if isinstance(prepared, f.ErrorOccurred):
            return prepared
        return replace(task, prompt=prepared.prompt, is_new=prepared.is_new)

    def _reattached(self, task: AgentTask, pid: int, report: TaskReport) -> None:
        report(f.AttemptReattached(task.attempt, pid))

    async def _finished(self, task: AgentTask, ended: Finished) -> f.AnyFact:
        result, record = ended.result, ended.record
        about = self._left(task, is_program=record is not None)
        known = _supervisor_failure(record, task) if record else None
        if record is not None and known is not None:
            result = replace(result, failure=known, exit_code=record.exit_code or 0)
            about = replace(about, started=record.status != "spawn_failed")
        about = replace(about, repeatable=record is not None, agent_session=ended.agent_session)
        return self._concluded(about, result)

    async def _not_started(self, task: AgentTask, failure: Failure) -> f.AnyFact:
        return self._concluded(replace(self._left(task), started=False), ExecuteResult(failure=failure))

    def _lost(self, task: AgentTask, lost: Lost) -> f.AttemptLost | f.AttemptCancelled:
        about = self._left(task)
        hide_secrets(about)
        note_attempt(about, "cancelled" if task.ending else "lost", None, self._clock.now())
        if task.ending:
            return f.AttemptCancelled(task.attempt, agent_session=lost.agent_session)
        if self._context.recorder:
            self._context.recorder.forget(about)
        return f.AttemptLost(task.attempt, lost.reason, lost.started, lost.agent_session)

    def _left(self, task: AgentTask, *, is_program: bool = True) -> Attempted:
        """What the attempt left; only programs use the outbox."""
        about = self._about(task)
        if is_program:
            empty_outbox(about.outbox, about.here, task.attempt, about.progress)
        return about

    def _record(self, task: AgentTask, ended: Ended, fact: f.AnyFact) -> None:
        """It is recorded before its files are changed: `_concluded`."""

    def _concluded(self, about: Attempted, ended: ExecuteResult) -> f.AnyFact:
        recorder = self._context.recorder
        draft = recorder.draft(about, ended) if recorder else None
        fact = conclude(about, ended, self._clock.now())
        if recorder is not None and draft is not None:
            recorder.keep(draft, about, fact)
        return fact

    def _about(self, task: AgentTask) -> Attempted:
        context, node = self._context, task.node
        return Attempted(
            task,
            context.layout.iteration(task.place.folder, task.iteration),
            project=context.project,
            outbox=outbox_of(context.project, task.mark(context.run_id)),
            progress=self._progress(task),
            output_path=output_path(context.project, node, context.plan.session.name),
            copies=context.copies,
            redactor=context.redactor,
            artifacts=self._artifacts if node.artifact else None,
            light=self._preparer.is_light(task.place, node),
            honors_promise=context.plan.mode == "loop" and isinstance(node.termination, Queue),
        )

    def _call(self, task: AgentTask) -> ProviderCall:
        layout, place = self._context.layout, task.place
        return ProviderCall(
            by=task.by,
            place=task.folder(layout),
            mark=task.mark(self._context.run_id),
            stage=task.name,
            limits=AttemptLimits(task.timeout, task.idle_timeout),
            sandbox=task.node.sandbox,
            scope=place.scope,
            writable=(layout.iteration(place.folder, task.iteration).root, self._progress(task)),
            before=task.before,
            budget=task.budget,
            once=task.node.semantics == "at_most_once",
        )

    def _progress(self, task: AgentTask) -> str:
        plan, place = self._context.plan, task.place
        return self._context.layout.progress(plan.mode, place.folder, place.scope)

    def _request(self, task: AgentTask) -> ExecuteRequest:
        about = self._about(task)
        archive_leftovers(about)
        context, here = self._context, about.here
        # The id is from the log, which may have been written elsewhere.
        resume = task.resume if task.resume and is_agent_session(task.resume) else ""
        stage = self._stage_variables(task)
        values = self._values_of(stage.references | references_in(task.prompt))
        prompt = resolve(task.prompt, values)
        # A wrong artifact is corrected, whether or not the agent remembers it.
        before = healing_text(task.invalid) if task.invalid else CONTINUE if resume else ""
        return ExecuteRequest(
            prompt=before + prompt,
            model=task.by.model,
            config=_resolved(task.by.config, values) if values else task.by.config,
            workdir=context.project,
            environment={
                **values,
                **stage.given,
                MARK: task.mark(context.run_id),
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
            verdicts=task.node.asked_verdicts,
            returns_items=context.plan.returns_items(task.node),
            artifact_path=here.artifact if task.node.artifact else "",
            # A copy, which the provider may change.
            schema={**task.node.artifact.agent_schema} if task.node.artifact else None,
            given=self._preparer.input_of(task) if self._calls.reads_input(task.by.type) else None,
            budget=task.budget,
        )

    def _stage_variables(self, task: AgentTask) -> StageVariables:
        at = (task.place.path, task.place.branch)
        known = self._variables.get(at)
        if known is None:
            named = references_in(msgspec.json.encode(task.node).decode())
            references = named.intersection(self._context.plan.pipeline.secrets)
            termination = task.node.termination
            judged = termination if isinstance(termination, Judgment) else Judgment(termination.max)
            # The termination settings, in the variables that the shell engine sets for agents.
            limits = {
                "MAX_ITERATIONS": str(termination.max),
                "MIN_ITERATIONS": str(judged.judged_from),
                "CONSENSUS": str(judged.required_stops),
            }
            known = StageVariables(references, {**self._context.environment, **limits})
            self._variables[at] = known
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


def _supervisor_failure(record: ExitRecord, task: AgentTask) -> Failure | None:
    """A failure that the supervisor recorded, or None."""
    match record.status:
        case "timeout":
            limit = f"{task.node.timeout:g} s" if task.node.timeout else "the runtime limit"
            # The record's duration is truncated to whole milliseconds.
            if task.timeout is None or record.duration_ms + 1 < task.timeout * 1000:
                seconds = record.duration_ms / 1000
                limit = f"the time limit of provider {task.by.type!r} ({seconds:.1f} s in all)"
            return Failure(FailureKind.ITERATION_TIMEOUT, f"the agent was ended after {limit}")
        case "idle":
            idle = task.node.idle_timeout
            known = f"for {idle:g} s" if idle else "for as long as its provider allows"
            return Failure(FailureKind.PROVIDER_TIMEOUT, f"the agent produced no output {known}")
        case "spawn_failed":
            return Failure(FailureKind.PROVIDER_MISSING, record.error or "the agent couldn't be started")
    return None
