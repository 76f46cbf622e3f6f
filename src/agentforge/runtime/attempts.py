"""Running attempts: start the agent, or take up the one that an earlier engine left running.

An attempt's number is started at most once: its claim file decides who may. So executing is safe to repeat.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from time import monotonic
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.node_keys import recorded_key
from agentforge.host import files
from agentforge.model import facts as f
from agentforge.model.errors import AgentForgeError, ProviderUnusable, UnknownProvider
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Judgment, Plan, Queue, Termination
from agentforge.model.redaction import Redactor
from agentforge.model.state import AttemptState
from agentforge.model.work import End, Execute
from agentforge.ports.clock import Clock
from agentforge.ports.provider import ExecuteRequest, ExecuteResult, ProcessProvider, Provider
from agentforge.runtime.concluding import (
    Attempted,
    conclude,
    hide_secrets,
    note_attempt,
    note_target,
    set_aside,
)
from agentforge.runtime.confining import Confiner, writable_in
from agentforge.runtime.exit_record import KILLED, ExitRecord, exit_of
from agentforge.runtime.preparing import Prepared, output_path
from agentforge.runtime.recording import Recorder
from agentforge.runtime.supervised import MARK, Left, Limits, Supervised

log = logging.getLogger("agentforge.run")


# A session that is gone on with has the task in it, but what came last there may be a cut-off answer.
GO_ON = """\
You were at the task below before, in this very conversation, and it wasn't finished: you were interrupted, or
the result was missing. Look at what is done already, in the conversation and in the working folder, do the
rest, and write the result as asked. The task was:

"""


class RunSetting(Struct, frozen=True):
    """What all attempts of a run share."""

    project: str
    layout: RunLayout
    plan: Plan
    run_id: str
    environment: Mapping[str, str]
    """What the engine adds to every agent's environment."""
    redactor: Redactor = Redactor(())
    recorder: Recorder | None = None
    """Where what agents do is kept, if it is."""
    is_replay: bool = False
    """Whether a cassette is played: then nobody is there to be confined."""


class AttemptRunner:
    def __init__(
        self,
        setting: RunSetting,
        provider_of: Callable[[str], Provider],
        turns: Mapping[str, asyncio.Lock],
        supervised: Supervised,
        *,
        confiner: Confiner,
        clock: Clock,
    ) -> None:
        self._setting = setting
        self._provider_of = provider_of
        self._turns = turns
        self._supervised = supervised
        self._confiner = confiner
        self._clock = clock

    async def execute(
        self,
        work: Execute,
        attempt: AttemptState,
        *,
        fresh: bool,
        prepared: Prepared | None,
        adopted: Callable[[int], None],
    ) -> f.AnyFact:
        """Run the attempt to its outcome. `fresh`: its intent was recorded by this very engine, so no
        earlier one can have started it."""
        about = self._about(work, attempt, prepared)
        try:
            provider = self._provider_of(about.by.type)
        except (ProviderUnusable, UnknownProvider) as error:
            return self._unusable(about, error)
        if fresh:
            async with self._turns.get(provider.name, nullcontext()):
                # One call at a time for a provider that doesn't stand several.
                if is_program(provider):
                    return await self._start(work, about, provider)
                return await self._in_process(work, about, provider)
        if is_program(provider):
            left = await self._supervised.take_up(about.place, self._mark(work), adopted)
            return self._outcome(about, provider, left)
        return self._lost(about, Left(lost="it ran inside the engine, which died"), provider)

    async def end(self, work: End, attempt: AttemptState) -> f.AnyFact:
        """End the attempt; if it had finished by itself, what it finished counts."""
        about = self._about(work, attempt)
        try:
            provider = self._provider_of(about.by.type)
        except (ProviderUnusable, UnknownProvider):
            # Whoever it was, its program is known by its claim.
            provider = None
        if provider is None or is_program(provider):
            left = await self._supervised.end(about.place, self._mark(work))
            if left.record is not None and provider is not None:
                return self._outcome(about, provider, left)
        hide_secrets(about)
        note_attempt(about, "cancelled", None, self._clock.now())
        session = self._session_left(about, provider) if provider else None
        return f.AttemptCancelled(about.number, "ended on request", session)

    # -- agents that are programs

    async def _start(self, work: Execute, about: Attempted, provider: ProcessProvider) -> f.AnyFact:
        set_aside(about)
        note_target(about)
        request = self._request(work, about)
        try:
            command = provider.command(request)
            writable = writable_in(about.here, self._progress(work))
            sandbox = None if self._setting.is_replay else about.node.sandbox
            confined = self._confiner.confine(command, sandbox, about.place, writable)
        except ProviderUnusable as error:
            return self._unusable(about, error)
        except AgentForgeError:
            raise
        except Exception as error:  # Whoever wrote the provider: it is no reason for the engine to die.
            return self._unstarted(about, _raised(about, error))
        limits = Limits(work.timeout, work.idle_timeout)
        left = await self._supervised.run(about.place, confined, self._mark(work), limits)
        return self._outcome(about, provider, left)

    def _outcome(self, about: Attempted, provider: ProcessProvider, left: Left) -> f.AnyFact:
        record = left.record
        if record is None:
            return self._lost(about, left, provider)
        ended = _understood(about, provider, record)
        failure = _failure_of(record, about)
        if failure is not None:
            ended = replace(ended, failure=failure, exit_code=record.exit_code or 0)
            about = replace(about, started=record.status != "spawn_failed")
        return self._conclude(about, provider, ended)

    # -- providers inside the engine

    async def _in_process(self, work: Execute, about: Attempted, provider: Provider) -> f.AnyFact:
        set_aside(about)
        note_target(about)
        request = self._request(work, about)
        began = monotonic()
        limit = asyncio.timeout(work.timeout)
        try:
            async with limit:
                ended = await provider.execute(request)
        except Exception as error:
            if limit.expired():
                failure = Failure(FailureKind.ITERATION_TIMEOUT, _timeout_message(about))
            else:
                failure = _raised(about, error)
            ended = ExecuteResult(duration_ms=_since(began), failure=failure)
        return self._conclude(about, provider, ended)

    # -- what all attempts share

    def _about(
        self, work: Execute | End, attempt: AttemptState, prepared: Prepared | None = None
    ) -> Attempted:
        setting = self._setting
        node = work.node
        return Attempted(
            node=node,
            by=node.chosen(attempt.choice),
            here=setting.layout.iteration(work.place.folder, work.iteration),
            iteration=work.iteration,
            number=work.attempt,
            started_at=attempt.started_at,
            timeout=attempt.timeout,
            resume=attempt.resume or "",
            before=attempt.before,
            prompt=prepared.prompt if prepared else "",
            is_clean=prepared is not None and prepared.is_new,
            output_path=output_path(setting.project, node, setting.plan.session.name),
            heeds_promise=setting.plan.mode == "loop" and isinstance(node.termination, Queue),
            redactor=setting.redactor,
            at=work.place,
        )

    def _request(self, work: Execute, about: Attempted) -> ExecuteRequest:
        setting = self._setting
        prompt = about.prompt or files.read_text(about.here.prompt) or ""
        return ExecuteRequest(
            prompt=GO_ON + prompt if about.resume else prompt,
            model=about.by.model,
            config=about.by.config,
            workdir=setting.project,
            environment={
                **setting.environment,
                **_limits_told(about.node.termination),
                MARK: self._mark(work),
                "MOCK_STATUS_FILE": about.here.status,
                "MOCK_RESULT_FILE": about.here.result,
                "MOCK_ITERATION": str(work.iteration),
                "MOCK_PROVIDER": about.by.type,
            },
            status_path=about.here.status,
            result_path=about.here.result,
            session=setting.plan.session.name,
            stage=about.node.id,
            iteration=work.iteration,
            attempt=work.attempt,
            prompt_path=about.here.prompt,
            resume=about.resume,
            node=recorded_key(setting.plan, work.place.path, work.place.run),
            branch=work.place.branch or "",
        )

    def _conclude(self, about: Attempted, provider: Provider, ended: ExecuteResult) -> f.AnyFact:
        session = _session_of(ended) if provider.capabilities().supports_resume else None
        about = replace(about, repeatable=is_program(provider), agent_session=session)
        return self._recorded(about, ended)

    def _unusable(self, about: Attempted, error: AgentForgeError) -> f.AnyFact:
        failure = Failure(FailureKind.PROVIDER_MISSING, f"{error.message}; {error.hint}".rstrip("; "))
        return self._unstarted(about, failure)

    def _unstarted(self, about: Attempted, failure: Failure) -> f.AnyFact:
        return self._recorded(replace(about, started=False), ExecuteResult(failure=failure))

    def _recorded(self, about: Attempted, ended: ExecuteResult) -> f.AnyFact:
        recorder = self._setting.recorder
        draft = recorder.draft(about, ended) if recorder else None
        fact = conclude(about, ended, self._clock.now())
        if recorder is not None and draft is not None:
            recorder.keep(draft, about, fact)
        return fact

    def _progress(self, work: Execute) -> str:
        plan = self._setting.plan
        return self._setting.layout.progress(plan.mode, work.place.folder, work.place.scope)

    def _mark(self, work: Execute | End) -> str:
        return f"{self._setting.run_id}/{work.id.rpartition('/')[0]}"

    def _lost(self, about: Attempted, left: Left, provider: Provider) -> f.AttemptLost:
        hide_secrets(about)
        note_attempt(about, "lost", None, self._clock.now())
        if self._setting.recorder:
            self._setting.recorder.forget(about)
        session = self._session_left(about, provider) if left.started else None
        return f.AttemptLost(about.number, left.lost, left.started, session)

    def _session_left(self, about: Attempted, provider: Provider) -> str | None:
        """The session of an agent that was killed, as far as its output says."""
        if not is_program(provider) or not provider.capabilities().supports_resume:
            return None
        return _session_of(_understood(about, provider, KILLED))


def _understood(about: Attempted, provider: ProcessProvider, record: ExitRecord) -> ExecuteResult:
    exit = exit_of(record, about.place, about.by, about.before)
    try:
        return provider.interpret(exit)
    except Exception as error:  # The same exit would be read again by every engine that takes the run up.
        return ExecuteResult(
            exit.output, exit.exit_code or 0, exit.duration_ms, failure=_raised(about, error)
        )


def _session_of(ended: ExecuteResult) -> str | None:
    return ended.usage.agent_session if ended.usage else None


def is_program(provider: Provider) -> TypeGuard[ProcessProvider]:
    # Asking the protocol itself would look up each of its members, several times in every iteration.
    return hasattr(provider, "command") and hasattr(provider, "interpret")


def _limits_told(termination: Termination) -> dict[str, str]:
    """What agents of agent-pipelines are told about how their stage ends."""
    judged = termination if isinstance(termination, Judgment) else Judgment(termination.max)
    return {
        "MAX_ITERATIONS": str(termination.max),
        "MIN_ITERATIONS": str(judged.judged_from),
        "CONSENSUS": str(judged.stops_wanted),
    }


def _failure_of(record: ExitRecord, about: Attempted) -> Failure | None:
    """What the supervisor itself knows to be a failure."""
    match record.status:
        case "timeout":
            limit = _limit_met(record, about)
            return Failure(FailureKind.ITERATION_TIMEOUT, f"the agent was ended after {limit}")
        case "idle":
            idle = about.node.idle_timeout
            known = f"for {idle:g} s" if idle else "for as long as its provider allows"
            return Failure(FailureKind.PROVIDER_TIMEOUT, f"the agent said nothing {known}")
        case "spawn_failed":
            return Failure(FailureKind.PROVIDER_MISSING, record.error or "the agent couldn't be started")
    return None


def _limit_met(record: ExitRecord, about: Attempted) -> str:
    # The record's duration is cut to whole milliseconds.
    if about.timeout is None or record.duration_ms + 1 < about.timeout * 1000:
        return f"{record.duration_ms / 1000:.1f} s, the limit of provider {about.by.type!r}"
    return f"{about.node.timeout:g} s" if about.node.timeout else "the runtime limit"


def _raised(about: Attempted, error: Exception) -> Failure:
    """What an exception out of a provider means."""
    name = about.by.type
    log.error("provider %s raised", name, exc_info=error)
    kind = FailureKind.PROVIDER_TIMEOUT if isinstance(error, TimeoutError) else FailureKind.PROVIDER_CRASHED
    return Failure(kind, f"{name} raised {type(error).__name__}: {error}")


def _timeout_message(about: Attempted) -> str:
    return f"stage {about.node.id!r} took longer than {about.timeout or 0:g} s"


def _since(began: float) -> int:
    return int((monotonic() - began) * 1000)
