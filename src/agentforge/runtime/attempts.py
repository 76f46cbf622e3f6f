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

from agentforge.model import facts as f
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Judgment, Plan, Queue, Termination
from agentforge.model.state import AttemptState
from agentforge.model.work import End, Execute
from agentforge.ports.clock import Clock
from agentforge.ports.provider import ExecuteRequest, ExecuteResult, Exit, ProcessProvider, Provider
from agentforge.runtime import files
from agentforge.runtime.concluding import Attempted, conclude, note_attempt, note_target, set_aside
from agentforge.runtime.exit_record import ExitRecord
from agentforge.runtime.preparing import Prepared, output_path
from agentforge.runtime.supervised import MARK, Left, Limits, Supervised

log = logging.getLogger("agentforge.run")


class RunSetting(Struct, frozen=True):
    """What all attempts of a run share."""

    project: str
    layout: RunLayout
    plan: Plan
    run_id: str
    environment: Mapping[str, str]
    """What the engine adds to every agent's environment."""


class AttemptRunner:
    def __init__(
        self,
        setting: RunSetting,
        provider_of: Callable[[str], Provider],
        turns: Mapping[str, asyncio.Lock],
        supervised: Supervised,
        clock: Clock,
    ) -> None:
        self._setting = setting
        self._provider_of = provider_of
        self._turns = turns
        self._supervised = supervised
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
        about, provider = self._about(work, attempt, prepared)
        if fresh:
            async with self._turns.get(provider.name, nullcontext()):
                # One call at a time for a provider that doesn't stand several.
                if is_program(provider):
                    return await self._start(work, about, provider)
                return await self._in_process(work, about, provider)
        if is_program(provider):
            place = about.here.attempt(about.number)
            left = await self._supervised.take_up(place, self._mark(work), adopted)
            return self._outcome(about, provider, left, attempt.timeout)
        return self._lost(about, Left(lost="it ran inside the engine, which died"))

    async def end(self, work: End, attempt: AttemptState) -> f.AnyFact:
        """End the attempt; if it had finished by itself, what it finished counts."""
        about, provider = self._about(work, attempt)
        if is_program(provider):
            left = await self._supervised.end(about.here.attempt(about.number), self._mark(work))
            if left.record is not None:
                return self._outcome(about, provider, left, attempt.timeout)
        note_attempt(about, "cancelled", None, self._clock.now())
        return f.AttemptCancelled(about.number, "ended on request")

    # -- agents that are programs

    async def _start(self, work: Execute, about: Attempted, provider: ProcessProvider) -> f.AnyFact:
        set_aside(about)
        note_target(about)
        try:
            command = provider.command(self._request(work, about))
        except ProviderUnusable as error:
            failure = Failure(FailureKind.PROVIDER_MISSING, f"{error.message}. {error.hint}".rstrip(". "))
            return conclude(about, ExecuteResult(failure=failure), b"", self._clock.now())
        place = about.here.attempt(about.number)
        limits = Limits(work.timeout, work.idle_timeout)
        left = await self._supervised.run(place, command, self._mark(work), limits)
        return self._outcome(about, provider, left, work.timeout)

    def _outcome(
        self, about: Attempted, provider: ProcessProvider, left: Left, timeout: float | None
    ) -> f.AnyFact:
        record = left.record
        if record is None:
            return self._lost(about, left)
        raw = files.read_bytes(about.here.attempt(about.number).output) or b""
        text = raw.decode("utf-8", "replace")
        failure = _failure_of(record, about, timeout)
        if failure is not None:
            ended = ExecuteResult(text, record.exit_code or 0, record.duration_ms, failure=failure)
        else:
            ended = provider.interpret(Exit(record.exit_code, record.signal, record.duration_ms, text))
        return conclude(about, ended, raw, self._clock.now())

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
                failure = Failure(FailureKind.ITERATION_TIMEOUT, _timeout_message(about, work.timeout))
            else:
                failure = _raised(about, error)
            ended = ExecuteResult(duration_ms=_since(began), failure=failure)
        return conclude(about, ended, ended.output.encode("utf-8", "replace"), self._clock.now())

    # -- what all attempts share

    def _about(
        self, work: Execute | End, attempt: AttemptState, prepared: Prepared | None = None
    ) -> tuple[Attempted, Provider]:
        setting = self._setting
        node = work.spot.node(setting.plan)
        provider = self._provider_of(node.provider.type)
        about = Attempted(
            node=node,
            here=setting.layout.iteration(work.spot.folder(setting.plan), work.iteration),
            iteration=work.iteration,
            number=work.attempt,
            started_at=attempt.started_at,
            prompt=prepared.prompt if prepared else "",
            is_clean=prepared is not None and prepared.is_new,
            output_path=output_path(setting.project, node, setting.plan.session.name),
            repeatable=is_program(provider),
            heeds_promise=setting.plan.mode == "loop" and isinstance(node.termination, Queue),
        )
        return about, provider

    def _request(self, work: Execute, about: Attempted) -> ExecuteRequest:
        setting = self._setting
        return ExecuteRequest(
            prompt=about.prompt or files.read_text(about.here.prompt) or "",
            model=about.node.provider.model,
            config=about.node.provider.config,
            workdir=setting.project,
            environment={
                **setting.environment,
                **_limits_told(about.node.termination),
                MARK: self._mark(work),
                "MOCK_STATUS_FILE": about.here.status,
                "MOCK_RESULT_FILE": about.here.result,
                "MOCK_ITERATION": str(work.iteration),
                "MOCK_PROVIDER": about.node.provider.type,
            },
            status_path=about.here.status,
            result_path=about.here.result,
            session=setting.plan.session.name,
            stage=about.node.id,
            iteration=work.iteration,
            attempt=work.attempt,
            prompt_path=about.here.prompt,
        )

    def _mark(self, work: Execute | End) -> str:
        return f"{self._setting.run_id}/{work.id.rpartition('/')[0]}"

    def _lost(self, about: Attempted, left: Left) -> f.AttemptLost:
        note_attempt(about, "lost", None, self._clock.now())
        return f.AttemptLost(about.number, left.lost, left.started)


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


def _failure_of(record: ExitRecord, about: Attempted, timeout: float | None) -> Failure | None:
    """What the supervisor itself knows to be a failure."""
    match record.status:
        case "timeout":
            limit = _limit_met(record, about, timeout)
            return Failure(FailureKind.ITERATION_TIMEOUT, f"the agent was ended after {limit}")
        case "idle":
            return Failure(
                FailureKind.PROVIDER_TIMEOUT, f"the agent said nothing for {about.node.idle_timeout:g} s"
            )
        case "spawn_failed":
            return Failure(FailureKind.PROVIDER_MISSING, record.error or "the agent couldn't be started")
    return None


def _limit_met(record: ExitRecord, about: Attempted, timeout: float | None) -> str:
    # The record's duration is cut to whole milliseconds.
    if timeout is None or record.duration_ms + 1 < timeout * 1000:
        return f"{record.duration_ms / 1000:.1f} s, the limit of provider {about.node.provider.type!r}"
    return f"{about.node.timeout:g} s" if about.node.timeout else "the runtime limit"


def _raised(about: Attempted, error: Exception) -> Failure:
    """What an exception out of a provider inside the engine means."""
    name = about.node.provider.type
    log.error("provider %s raised", name, exc_info=error)
    kind = FailureKind.PROVIDER_TIMEOUT if isinstance(error, TimeoutError) else FailureKind.PROVIDER_CRASHED
    return Failure(kind, f"{name} raised {type(error).__name__}: {error}")


def _timeout_message(about: Attempted, timeout: float | None) -> str:
    return f"stage {about.node.id!r} took longer than {timeout or 0:g} s"


def _since(began: float) -> int:
    return int((monotonic() - began) * 1000)
