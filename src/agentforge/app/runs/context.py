"""What all runs of an engine share, and every operation on them is given."""

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, count
from typing import Annotated, TypedDict

from agentforge.adapters.host.machine import SystemClock
from agentforge.adapters.providers.mock import is_mock_mode
from agentforge.app.hooks import HookRegistry
from agentforge.app.providers.logins import usable_agent
from agentforge.app.providers.offers import find_offers, is_trusted
from agentforge.app.providers.readiness import settings_check
from agentforge.app.providers.registry import Registry
from agentforge.app.runs.caller import Caller
from agentforge.app.runs.leases import Leases
from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.span_export import SpanExport
from agentforge.app.runs.trust import Trust
from agentforge.app.runs.updates import Tail
from agentforge.app.wiring import local_processes, sandboxes, sources_of
from agentforge.definition.machine import Machine
from agentforge.definition.precedence import DEFAULT_PROVIDER
from agentforge.model.event import Event
from agentforge.model.hook import OnFailure
from agentforge.model.run_options import Argument
from agentforge.ports.event_log import Head
from agentforge.ports.host import Clock
from agentforge.ports.provider import Provider
from agentforge.ports.sources import Sources
from agentforge.runtime.confinement import Placeholders
from agentforge.runtime.driver import Driver
from agentforge.runtime.notifier import Sender
from agentforge.runtime.supervision import SupervisorLimits

STOP_GRACE = 30.0
POLL_SECONDS = 0.25


class EngineOptions(TypedDict, total=False):
    """Of `Engine` and `SyncEngine`."""

    providers: Annotated[Mapping[str, Provider] | None, Argument(None)]
    environ: Annotated[Mapping[str, str] | None, Argument(None)]
    limits: Annotated[SupervisorLimits, Argument(SupervisorLimits())]
    stop_grace: Annotated[float, Argument(STOP_GRACE)]
    """Seconds for an agent to finish its iteration when the run is stopped."""
    clock: Annotated[Clock, Argument(SystemClock())]
    sandboxed: Annotated[bool, Argument(False)]
    """The whole process is isolated, so providers that require a sandbox can run without one."""
    hook_errors: Annotated[OnFailure, Argument("continue")]
    """What a run does after an exception in a hook of this program."""


class Follower:
    """The subscriptions of one engine. Each subscriber reads the log at its own pace: a slow one blocks no
    other and misses no events. Notifications only save waiting for the next poll."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._waiting: set[asyncio.Event] = set()
        self._started: dict[str, Head] = {}
        self._closed = False

    def begin(self, session: str, head: Head) -> None:
        """The engine drives the session from now on, from this head of its log."""
        self._started[session] = head

    def notify(self) -> None:
        for news in self._waiting:
            news.set()

    def close(self) -> None:
        self._closed = True
        self.notify()

    async def follow(self, session: str | None) -> AsyncIterator[Event]:
        """All events of one run until it stops, or of every run of the engine until it is closed."""
        news = asyncio.Event()
        self._waiting.add(news)
        tails: dict[str, Tail] = {session: Tail(self._runs, session)} if session else {}
        try:
            while True:
                news.clear()
                last = self._closed or any(tail.is_over for tail in tails.values() if session)
                if session is None:
                    started = {name: head for name, head in self._started.items() if name not in tails}
                    tails |= {name: Tail(self._runs, name, head) for name, head in started.items()}
                for tail in list(tails.values()):
                    for event in tail.news():
                        yield event
                if last:
                    return
                # Wait for a notification, or poll for events that other processes wrote.
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await news.wait()
        finally:
            self._waiting.discard(news)


# An engine is this object. What the functions of this package do with runs, they do with what is in it, so
# that several engines of one process share nothing.
class RunContext:
    def __init__(self, workdir: str | os.PathLike[str], options: EngineOptions) -> None:
        environ = options["environ"]
        # A copy: what the program sets later must not change what its agents get in the middle of a run.
        self.environ = dict(os.environ if environ is None else environ)
        self.options = options
        self.clock = options["clock"]
        self.runs = runs = Runs(workdir, self.environ)
        self.project = runs.project
        self.processes = local_processes()
        self.registry = Registry(partial(find_offers, self.project, self.environ), options["providers"])
        self.hooks = HookRegistry(options["hook_errors"])
        self.sandboxes = sandboxes(self.environ, self.project)
        self.placeholders = Placeholders(self.project)
        self.trust = Trust(runs)
        self.leases = Leases(runs, self.processes, self.clock, self.trust)
        self.follower = Follower(runs)
        self.sender = Sender()
        self.span_export = SpanExport(runs)
        self.drivers: dict[str, Driver] = {}
        """Of the runs that this engine drives, by session."""
        self.released: dict[str, asyncio.Event] = {}
        """Set when such a run was released."""
        self._named = set[str]()
        """Names that this engine made up."""

    def free_name(self, name: str) -> str:
        """With a number, if it is taken: several runs of a pipeline may be started in a second."""
        numbered = (f"{name}-{number}" for number in count(2))
        free = next(one for one in chain([name], numbered) if not self._is_taken(one))
        self._named.add(free)
        return free

    def _is_taken(self, name: str) -> bool:
        return name in self._named or self.leases.is_taken(name)

    @property
    def is_mock(self) -> bool:
        return is_mock_mode(self.environ)

    @property
    def known_providers(self) -> Collection[str] | None:
        """The provider names that a pipeline may use, or None in mock mode, where every name is accepted."""
        return None if self.is_mock else self.registry.names

    @property
    def machine(self) -> Machine:
        def default() -> str:
            if self.is_mock or self.registry.offer(DEFAULT_PROVIDER).origin != "built in":
                return DEFAULT_PROVIDER
            return usable_agent(self.project, self.environ)

        # Settings of providers are of no account in mock mode.
        check = None if self.is_mock else settings_check(self.registry.known)
        return Machine(default, lambda: is_trusted(self.project, self.environ), self.known_providers, check)

    @property
    def sources(self) -> Sources:
        return sources_of(self.project, self.environ, self.clock)

    @property
    def caller(self) -> Caller:
        return Caller(self.environ, self.processes)

    def wake(self, session: str) -> None:
        if driver := self.drivers.get(session):
            driver.wake()
