"""One call of a provider, in the engine's process or as a program under the supervisor: made, reattached to,
ended. All tasks that call a provider use it, with the same locks, sandbox and limits.

A call is started at most once, as its claim file ensures. So everything here is safe to repeat.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from inspect import isawaitable
from time import monotonic
from typing import TYPE_CHECKING, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.decide.failure import kind_of
from agentforge.model.errors import AgentForgeError, MissingKey, ProviderUnusable, UnknownProvider
from agentforge.model.facts import AnyFact
from agentforge.model.failure import Failure, FailureKind, short_message
from agentforge.model.layout import AttemptLayout, RunLayout
from agentforge.model.plan import Plan, ProviderChoice, SandboxChoice
from agentforge.model.result import Usage
from agentforge.model.secrets import Redactor
from agentforge.model.spending import Amount
from agentforge.ports.provider import Command, ExecuteRequest, ExecuteResult, ProcessProvider, Provider
from agentforge.runtime.attempt_folder import (
    KILLED,
    ExitRecord,
    exit_of,
    is_foreign,
    make_folder,
    make_outbox,
    sync_names,
)
from agentforge.runtime.confinement import Confiner
from agentforge.runtime.left_files import Refuse, ensure_folder
from agentforge.runtime.provider_result import checked, mistaken
from agentforge.runtime.state_folder import OutputCopies
from agentforge.runtime.supervision import AttemptLimits, Cleanup, Supervised, SupervisedExit
from agentforge.system.work_limit import WorkLimit, call_within

if TYPE_CHECKING:
    from agentforge.model.cassette import Cassette
    from agentforge.runtime.recorder import Recorder

log = logging.getLogger("agentforge.run")

# Theory of operation
#
# A call goes through the claim of its attempt, so that "made", "reattached to" and "ended" may each be
# asked at any time by any engine. Nothing about a call is kept in memory that the next engine would need:
# what identifies the process is the mark, and how it ended is in the exit record.
#
# Providers are code of others. Whatever they raise becomes the failure of an attempt, also in
# `interpret`, which an engine that recovers the run calls again: an exception there would end one engine
# after the other. Errors of ours (`AgentForgeError`, a full disk) end the engine, and leave the log as it
# is.
#
# The request is built when the provider's lock is held, not before: another call may have taken long, and
# files and settings that it is built from may have changed.

DISPLACED = "the agent moved, removed or replaced the folder of its iteration, and its records with it"
INTERPRET_SECONDS = 60.0
"""For the interpretation of an attempt's output, on a busy machine."""


TaskReport = Callable[[AnyFact], None]
"""Records a fact before the task's outcome; it is durable when this returns."""


class TaskContext(Struct, frozen=True):
    """What all tasks of a run share."""

    project: str
    layout: RunLayout
    plan: Plan
    run_id: str
    environment: Mapping[str, str]
    """Variables that the engine adds to every agent's environment."""
    redactor: Redactor = Redactor(())
    environ: Mapping[str, str] = {}
    """The engine's environment, which has the values of secrets."""
    copies: OutputCopies | None = None
    """Which files at output paths the engine wrote."""
    recorder: "Recorder | None" = None
    """None if the run is not recorded."""
    cassette: "Callable[[], Cassette] | None" = None
    """Of a replay: it answers for hooks and the queue, and its player for the agents."""


class ProviderCall(Struct, frozen=True):
    by: ProviderChoice
    place: AttemptLayout
    mark: str
    """Identifies its processes."""
    stage: str
    limits: AttemptLimits = AttemptLimits()
    sandbox: SandboxChoice | None = None
    writable: tuple[str, ...] = ()
    """The run's files that it may write in a sandbox."""
    scope: str = ""
    """The directory of its branch, relative to the run directory; empty outside a block."""
    before: Usage | None = None
    """The usage of the agent session before it was resumed."""
    budget: Amount | None = None
    """What it may spend; None: it isn't bounded."""
    once: bool = False
    """Whether a person is asked before it is repeated: a power failure must not hide that it was started."""
    report: TaskReport | None = None
    """Records what it left for git; needed in a sandbox."""


class Finished(Struct, frozen=True):
    result: ExecuteResult
    record: ExitRecord | None = None
    """None for an in-process provider."""
    agent_session: str | None = None
    """The agent session, if the provider can resume it."""


class Lost(Struct, frozen=True):
    """The call has no result, because the engine, its supervisor or the machine died, or because it was
    ended."""

    reason: str
    started: bool = True
    agent_session: str | None = None


class CallRefused(Struct, frozen=True):
    """The call couldn't be made."""

    failure: Failure


Ended = Finished | Lost | CallRefused


class Calls:
    def __init__(
        self,
        provider_of: Callable[[str], Provider],
        locks: Mapping[str, asyncio.Lock],
        supervised: Supervised,
        confiner: Confiner,
        *,
        run_dir: str,
        refuse: Refuse,
        interpret_seconds: float = INTERPRET_SECONDS,
        admit: Callable[[str, ProviderChoice, Provider], None] | None = None,
    ) -> None:
        """`admit`: raises ProviderUnusable if the provider must not be called for the stage. `locks`: of the
        providers that don't support concurrent calls. `refuse`: moves aside what isn't of the attempt."""
        self._provider_of = provider_of
        self._locks = locks
        self._supervised = supervised
        self._confiner = confiner
        self._run_dir = run_dir
        self._refuse = refuse
        self._interpret_seconds = interpret_seconds
        self._admit = admit

    def runs_program(self, name: str) -> bool:
        """Whether the provider's agent is a program."""
        provider = self._provider(name)
        return not isinstance(provider, CallRefused) and is_program(provider)

    def reads_input(self, name: str) -> bool:
        """Whether the provider works from the input of the stage instead of a prompt."""
        provider = self._provider(name)
        return not isinstance(provider, CallRefused) and provider.capabilities().reads_input

    async def make(self, call: ProviderCall, request: Callable[[], ExecuteRequest]) -> Ended:
        """Start it and wait for its end. The request is built once the provider's lock is held."""
        provider = self._provider(call.by.type)
        if isinstance(provider, CallRefused):
            return provider
        async with self._locks.get(provider.name) or nullcontext():
            if self._admit is not None:
                try:
                    await asyncio.to_thread(self._admit, f"stage {call.stage!r}", call.by, provider)
                except ProviderUnusable as error:
                    return _unusable(error)
            if is_program(provider):
                make_folder(call.place, self._refuse)
                if call.once:
                    sync_names(call.place, self._run_dir)
            try:
                asked = request()
            except ProviderUnusable as error:
                return _unusable(error)
            if not is_program(provider):
                return await _execute(call, provider, asked)
            confined = self._confined(call, provider, asked)
            if isinstance(confined, CallRefused):
                return confined
            command, cleanup = confined
            left = await self._supervised.run(call.place, command, call.mark, call.limits, cleanup)
            return await self._outcome(call, provider, left)

    async def reattach(self, call: ProviderCall, reattached: Callable[[int], None]) -> Ended:
        """Wait for a call that an earlier engine made, or read its exit record."""
        provider = self._provider(call.by.type)
        if isinstance(provider, CallRefused):
            return provider
        if not is_program(provider):
            return Lost("it ran inside the engine, which died")
        cleanup = self._confiner.cleanup(call.sandbox, provider, call.mark)
        self._ensure_folder(call)
        left = await self._supervised.reattach(call.place, call.mark, reattached, cleanup)
        return await self._outcome(call, provider, left)

    async def end(self, call: ProviderCall) -> Finished | Lost:
        found = self._provider(call.by.type)
        # Its program is identified by the claim, so that it is ended even if its provider is gone.
        provider = None if isinstance(found, CallRefused) else found
        if provider is not None and not is_program(provider):
            return Lost("it ran inside the engine")
        cleanup = self._confiner.cleanup(call.sandbox, provider, call.mark)
        self._ensure_folder(call)
        left = await self._supervised.end(call.place, call.mark, cleanup)
        return await self._outcome(call, provider, left)

    def _provider(self, name: str) -> Provider | CallRefused:
        try:
            return self._provider_of(name)
        except (ProviderUnusable, UnknownProvider) as error:
            return _unusable(error)

    def _confined(
        self, call: ProviderCall, provider: ProcessProvider, request: ExecuteRequest
    ) -> tuple[Command, Cleanup] | CallRefused:
        """The program as it is started in its sandbox, and the one that cleans up after it."""
        try:
            command = provider.command(request)
            if command.outbox:
                make_outbox(request)
            writable = (*call.writable, *([command.outbox] if command.outbox else []))
            confined = self._confiner.confine(
                command, call.sandbox, call.place, writable, mark=call.mark, scope=call.scope
            )
            return confined, self._confiner.cleanup(call.sandbox, provider, call.mark)
        except ProviderUnusable as error:
            return _unusable(error)
        except AgentForgeError:
            raise
        except Exception as error:  # A bug in a provider must not crash the engine.
            return CallRefused(_raised(call, error))

    def _ensure_folder(self, call: ProviderCall) -> None:
        """An agent may have moved, removed or replaced the folder of its iteration."""
        ensure_folder(call.place.root, self._run_dir, self._refuse)

    async def _outcome(
        self, call: ProviderCall, provider: ProcessProvider | None, left: SupervisedExit
    ) -> Finished | Lost:
        await self._confiner.settle(call.sandbox, call.place, call.report)
        if left.displaced:
            self._ensure_folder(call)
            return Finished(ExecuteResult(failure=Failure(FailureKind.RESULT_INVALID, DISPLACED)), KILLED)
        if not left.started and is_foreign(call.place):
            # An earlier engine was about to refuse it when it died.
            make_folder(call.place, self._refuse)
        if provider is None or not left.started:
            return Lost(left.lost, left.started)
        ended = await self._interpreted(call, provider, left.record or KILLED)
        session = _session_of(provider, ended)
        # The output of a killed agent may still contain the session.
        return Finished(ended, left.record, session) if left.record else Lost(left.lost, True, session)

    async def _interpreted(
        self, call: ProviderCall, provider: ProcessProvider, record: ExitRecord
    ) -> ExecuteResult:
        def interpret() -> ExecuteResult:
            exit = exit_of(record, call.place, call.by, call.before, call.budget)
            try:
                return checked(provider.interpret(exit), call.by.type)
            except Exception as error:  # Otherwise every engine that recovers the run would crash.
                failure = _raised(call, error)
                return ExecuteResult(exit.output, exit.exit_code or 0, exit.duration_ms, failure=failure)

        # The output may be long and hostile: it must not hold up the other tasks of the engine.
        seconds = self._interpret_seconds
        try:
            return await call_within(seconds, interpret)
        except TimeoutError:
            message = f"the output of {call.by.type} couldn't be interpreted within {seconds:g} s"
            message = f"{message}; see {call.place.output}"
            failure = Failure(FailureKind.OUTPUT_UNREADABLE, message, record.exit_code)
            return ExecuteResult("", record.exit_code or 0, record.duration_ms, failure=failure)


def is_program(provider: Provider) -> TypeGuard[ProcessProvider]:
    # isinstance with the protocol would look up each of its members, several times in every iteration.
    return hasattr(provider, "command") and hasattr(provider, "interpret")


async def _execute(call: ProviderCall, provider: Provider, request: ExecuteRequest) -> Finished:
    """In the engine's own process."""
    began, seconds = monotonic(), call.limits.timeout
    limit = WorkLimit(seconds)
    try:
        async with limit:
            returned: object = provider.execute(request)
            if isawaitable(returned):
                returned = await returned
            else:
                returned = mistaken(call.by.type, "`execute` is not async: write `async def execute`")
    except Exception as error:
        returned = ExecuteResult(duration_ms=int((monotonic() - began) * 1000), failure=_raised(call, error))
    ended = checked(returned, call.by.type)
    if limit.expired():
        # Also if the provider answered late, instead of being cancelled.
        message = f"stage {call.stage!r} took longer than {seconds:g} s"
        ended = replace(ended, failure=Failure(FailureKind.ITERATION_TIMEOUT, message))
    return Finished(ended, agent_session=_session_of(provider, ended))


def _session_of(provider: Provider, ended: ExecuteResult) -> str | None:
    if ended.usage is None or not provider.capabilities().supports_resume:
        return None
    return ended.usage.agent_session


def _unusable(error: AgentForgeError) -> CallRefused:
    kind = FailureKind.PROVIDER_AUTH if isinstance(error, MissingKey) else FailureKind.PROVIDER_MISSING
    return CallRefused(Failure(kind, short_message(f"{error.message}; {error.hint}".rstrip("; "))))


def _raised(call: ProviderCall, error: Exception) -> Failure:
    """The failure for an exception raised by a provider."""
    log.error("provider %s raised", call.by.type, exc_info=error)
    message = f"{call.by.type} raised {type(error).__name__}: {exception_message(error)}"
    return Failure(kind_of(error), short_message(message))


def exception_message(error: Exception) -> str:
    """The message of an exception of the user's code."""
    try:
        return str(error)
    except Exception:  # It may be faulty, too.
        return "its message can't be shown"
