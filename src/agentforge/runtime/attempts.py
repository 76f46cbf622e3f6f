"""Running attempts: start the agent, or take up the one that an earlier engine left running.

An attempt's number is started at most once: its claim file decides who may. So executing is safe to repeat.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from time import monotonic
from typing import TypeGuard

from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.layout import AttemptLayout, RunLayout
from agentforge.model.plan import Plan
from agentforge.model.state import AttemptState
from agentforge.model.work import End, Execute
from agentforge.ports.clock import Clock
from agentforge.ports.process import Identity, Processes
from agentforge.ports.provider import ExecuteRequest, ExecuteResult, Exit, ProcessProvider, Provider
from agentforge.runtime import files
from agentforge.runtime.concluding import Attempted, conclude, note_attempt, note_target, set_aside
from agentforge.runtime.exit_record import ExitRecord, read_claim, read_exit, take_claim
from agentforge.runtime.preparing import Prepared, output_path

log = logging.getLogger("agentforge.run")

MARK = "AGENTFORGE_ATTEMPT"


class SupervisorLimits(Struct, frozen=True):
    output_cap: int = 16 * 1024 * 1024
    term_grace: float = 5.0
    orphan_grace: float = 15 * 60.0


class RunSetting(Struct, frozen=True):
    """What all attempts of a run share."""

    project: str
    layout: RunLayout
    plan: Plan
    run_id: str
    environment: Mapping[str, str]
    """What the engine adds to every agent's environment."""
    limits: SupervisorLimits


class AttemptRunner:
    def __init__(
        self,
        setting: RunSetting,
        provider_of: Callable[[str], Provider],
        turns: Mapping[str, asyncio.Lock],
        processes: Processes,
        clock: Clock,
    ) -> None:
        self._setting = setting
        self._provider_of = provider_of
        self._turns = turns
        self._processes = processes
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
                if _is_program(provider):
                    return await self._start(work, about, provider)
                return await self._in_process(work, about, provider)
        if _is_program(provider):
            return await self._take_up(work, about, provider, adopted)
        return self._lost(about, "it ran inside the engine, which died", started=True)

    async def end(self, work: End, attempt: AttemptState) -> f.AnyFact:
        """End the attempt; if it had finished by itself, what it finished counts."""
        about, provider = self._about(work, attempt)
        if not _is_program(provider):
            return self._cancelled(about)
        place = about.here.attempt(about.number)
        if take_claim(place):
            return self._cancelled(about)
        claim = read_claim(place)
        if read_exit(place) is None and claim is not None:
            self._processes.terminate(claim.identity)
            await self._processes.wait(claim.identity)
        record = read_exit(place)
        if record is None:
            await self._processes.end_marked(self._mark(work))
        if record is None or record.status == "ended":
            return self._cancelled(about)
        return self._take_outcome(about, provider, place, record)

    # -- agents that are programs

    async def _start(self, work: Execute, about: Attempted, provider: ProcessProvider) -> f.AnyFact:
        set_aside(about)
        note_target(about)
        place = about.here.attempt(about.number)
        files.make_dir(place.root)
        try:
            command = provider.command(self._request(work, about))
        except ProviderUnusable as error:
            failure = Failure(FailureKind.PROVIDER_MISSING, f"{error.message}. {error.hint}".rstrip(". "))
            return conclude(about, ExecuteResult(failure=failure), b"", self._clock.now())
        stdin = None
        if command.stdin:
            stdin = os.path.join(place.root, "stdin")
            files.write(stdin, command.stdin.encode())
        limits = self._setting.limits
        spec = {
            "claim": place.claim,
            "agent": place.agent,
            "exit": place.exit,
            "output": place.output,
            "output_cap": limits.output_cap,
            "argv": command.argv,
            "env": command.env,
            "cwd": self._setting.project,
            "stdin": stdin,
            "timeout": work.timeout,
            "idle_timeout": work.idle_timeout,
            "term_grace": limits.term_grace,
            "orphan_grace": limits.orphan_grace,
            "lease": self._setting.layout.log,
            "mark": f"{MARK}={self._mark_value(work)}",
        }
        files.write_private(place.spec, json.dumps(spec).encode())
        with files.storage(place.spec):
            supervisor = self._processes.start_supervisor(place.spec)
        return await self._follow(work, about, provider, supervisor)

    async def _take_up(
        self, work: Execute, about: Attempted, provider: ProcessProvider, adopted: Callable[[int], None]
    ) -> f.AnyFact:
        """The engine that began it is gone: adopt the agent, take its outcome, or call it lost."""
        place = about.here.attempt(about.number)
        if take_claim(place):
            return self._lost(about, "the engine died before the agent was started", started=False)
        claim = read_claim(place)
        if read_exit(place) is not None:
            return await self._outcome(work, about, provider)
        if claim is None:
            return self._lost(about, "an earlier engine gave it up", started=False)
        if not self._processes.is_alive(claim.identity):
            return await self._outcome(work, about, provider)
        adopted(claim.pid)
        return await self._follow(work, about, provider, claim.identity)

    async def _follow(
        self, work: Execute, about: Attempted, provider: ProcessProvider, supervisor: Identity
    ) -> f.AnyFact:
        await self._processes.wait(supervisor)
        return await self._outcome(work, about, provider)

    async def _outcome(self, work: Execute, about: Attempted, provider: ProcessProvider) -> f.AnyFact:
        place = about.here.attempt(about.number)
        record = read_exit(place)
        if record is None:
            await self._processes.end_marked(self._mark(work))
            started = not take_claim(place)
            return self._lost(about, "its supervisor died", started=started)
        if record.status == "orphaned":
            return self._lost(about, "no engine came back for it in time", started=True)
        if record.status == "ended":
            return self._lost(about, "somebody outside ended it", started=True)
        return self._take_outcome(about, provider, place, record)

    def _take_outcome(
        self, about: Attempted, provider: ProcessProvider, place: AttemptLayout, record: ExitRecord
    ) -> f.AnyFact:
        raw = files.read_bytes(place.output) or b""
        text = raw.decode("utf-8", "replace")
        failure = _failure_of(record, about)
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
        node = setting.plan.nodes[work.node]
        provider = self._provider_of(node.provider.type)
        about = Attempted(
            node=node,
            here=setting.layout.iteration(work.node, node, work.node_run, work.iteration),
            iteration=work.iteration,
            number=work.attempt,
            started_at=attempt.started_at,
            prompt=prepared.prompt if prepared else "",
            is_clean=prepared is not None and prepared.is_new,
            output_path=output_path(setting.project, node, setting.plan.session.name),
            repeatable=_is_program(provider),
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
                MARK: self._mark_value(work),
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

    def _mark_value(self, work: Execute | End) -> str:
        return f"{self._setting.run_id}/{work.node_path}/{work.node_run}/{work.iteration}/{work.attempt}"

    def _mark(self, work: Execute | End) -> str:
        return f"{MARK}={self._mark_value(work)}"

    def _lost(self, about: Attempted, reason: str, *, started: bool) -> f.AttemptLost:
        note_attempt(about, "lost", None, self._clock.now())
        return f.AttemptLost(about.number, reason, started)

    def _cancelled(self, about: Attempted) -> f.AttemptCancelled:
        note_attempt(about, "cancelled", None, self._clock.now())
        return f.AttemptCancelled(about.number, "ended on request")


def _is_program(provider: Provider) -> TypeGuard[ProcessProvider]:
    # Asking the protocol itself would look up each of its members, several times in every iteration.
    return hasattr(provider, "command") and hasattr(provider, "interpret")


def _failure_of(record: ExitRecord, about: Attempted) -> Failure | None:
    """What the supervisor itself knows to be a failure."""
    match record.status:
        case "timeout":
            limit = f"{about.node.timeout:g} s" if about.node.timeout else "the runtime limit"
            return Failure(FailureKind.ITERATION_TIMEOUT, f"the agent was ended after {limit}")
        case "idle":
            return Failure(
                FailureKind.PROVIDER_TIMEOUT, f"the agent said nothing for {about.node.idle_timeout:g} s"
            )
        case "spawn_failed":
            return Failure(FailureKind.PROVIDER_MISSING, record.error or "the agent couldn't be started")
    return None


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
