"""The providers an engine knows, each set up once (init, then validate) and shut down on every way out."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import NoReturn

from agentforge.app.providers.offers import Offer
from agentforge.model.diagnostic import choice
from agentforge.model.errors import AgentForgeError, InvalidRequest, ProviderUnusable, UnknownProvider
from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import (
    Capabilities,
    ExecuteRequest,
    ExecuteResult,
    Exit,
    Provider,
    ShowsProgress,
)
from agentforge.runtime.tasks.call import is_program

log = logging.getLogger("agentforge.providers")
INIT_SECONDS = 60.0
SHUTDOWN_SECONDS = 10.0


class Registry:
    def __init__(
        self, find: Callable[[], Mapping[str, Offer]], registered: Mapping[str, Provider] | None = None
    ) -> None:
        """`find` is asked once, when the first provider is wanted."""
        self._find = find
        self._registered: dict[str, Provider] = dict(registered or {})
        self._made: dict[str, Provider] = {}
        self._ready: dict[str, Provider] = {}
        """One that has two names is set up once, and stays up as long as it has any."""
        self._broken: dict[str, AgentForgeError] = {}
        self._used_by: dict[str, frozenset[str]] = {}
        self._setting_up = asyncio.Lock()
        self.turns: dict[str, asyncio.Lock] = {}
        """For each provider that stands one call at a time, by its own name."""

    @property
    def names(self) -> list[str]:
        return sorted({*self._offers, *self._registered})

    def offer(self, name: str) -> Offer:
        """Where the provider of that name comes from."""
        if name in self._registered:
            provider = self._registered[name]
            kind = type(provider)
            place = f"{kind.__module__}.{kind.__qualname__}"
            hidden = self._offers.get(name)
            shadows = hidden is not None and (hidden.shadows or hidden.origin == "built in")
            return Offer(name, "registered", place, lambda: provider, shadows=shadows)
        if name not in self._offers:
            raise UnknownProvider(
                f"unknown provider {name!r}", hint=choice(name, "available providers", self.names)
            )
        return self._offers[name]

    def __getitem__(self, name: str) -> Provider:
        """Of a provider that turned out to be unusable, a stand-in that starts nothing and says why."""
        if name in self._broken:
            return Unusable(name, self._broken[name], self.known(name))
        return self._provider(name)

    def known(self, name: str) -> Provider | None:
        """The provider itself, whether it came up or not; nothing of one that can't be made."""
        try:
            return self._provider(name)
        except AgentForgeError:
            return None

    async def register(self, name: str, provider: Provider) -> None:
        """Set the provider up; one that fails to come up isn't registered."""
        async with self._setting_up:
            self._refuse_in_use(name, "replaced")
            if not self._is_up(provider):
                await set_up(name, provider)
            if self._ready.get(name) is not provider:
                await self._take_down(name)
            self._registered[name] = provider
            self._admit(name, provider)

    async def unregister(self, name: str) -> None:
        """Shut down what was registered under that name; what it stood in for is there again."""
        async with self._setting_up:
            offer = self.offer(name)
            if offer.origin != "registered":
                raise InvalidRequest(
                    f"provider {name!r} was never registered: it is {offer.origin} ({offer.place})",
                    hint="register another under its name to replace it",
                )
            self._refuse_in_use(name, "unregistered")
            await self._take_down(name)
            del self._registered[name]

    async def make_ready(self, names: Iterable[str]) -> None:
        """Set up those providers that a run needs and that no run needed before."""
        for error in (await self.try_ready(names)).values():
            raise error

    async def try_ready(
        self, names: Iterable[str], seconds: float = INIT_SECONDS
    ) -> dict[str, AgentForgeError]:
        """The same as far as possible: why the others can't be used. They say so again when they are asked
        for, until they come up."""
        wanted = tuple(dict.fromkeys(names))
        async with self._setting_up:
            # Runs that begin at once would else set the same provider up twice.
            for name in wanted:
                self._broken.pop(name, None)
                if name not in self._ready:
                    await self._bring_up(name, seconds)
        return {name: self._broken[name] for name in wanted if name in self._broken}

    def hold(self, session: str, names: Iterable[str]) -> None:
        """While a run is driven, its providers stay what they are."""
        self._used_by[session] = frozenset(names)

    def let_go(self, session: str) -> None:
        self._used_by.pop(session, None)

    async def close(self) -> None:
        """Shut everything down, also if the caller is cancelled meanwhile."""
        closing = asyncio.ensure_future(self._close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    # -- details

    @cached_property
    def _offers(self) -> Mapping[str, Offer]:
        return self._find()

    def _provider(self, name: str) -> Provider:
        if name in self._registered:
            return self._registered[name]
        if name not in self._made:
            self._made[name] = self.offer(name).make()
        return self._made[name]

    async def _bring_up(self, name: str, seconds: float) -> None:
        try:
            provider = self._provider(name)
            if not self._is_up(provider):
                await set_up(name, provider, seconds)
            self._admit(name, provider)
        except AgentForgeError as error:
            self._broken[name] = error

    def _is_up(self, provider: Provider) -> bool:
        return any(one is provider for one in self._ready.values())

    def _admit(self, name: str, provider: Provider) -> None:
        self._ready[name] = provider
        self._broken.pop(name, None)
        self._note_shadow(name)
        if not provider.capabilities().concurrent:
            self.turns.setdefault(provider.name, asyncio.Lock())

    async def _take_down(self, name: str) -> None:
        provider = self._ready.pop(name, None)
        self._broken.pop(name, None)
        if provider is not None and not self._is_up(provider):
            await shut_down(name, provider)

    async def _close(self) -> None:
        async with self._setting_up:
            up = {id(provider): (name, provider) for name, provider in self._ready.items()}
            self._ready.clear()
            await asyncio.gather(*(shut_down(name, provider) for name, provider in up.values()))

    def _refuse_in_use(self, name: str, verb: str) -> None:
        users = sorted(session for session, names in self._used_by.items() if name in names)
        if users:
            raise InvalidRequest(
                f"provider {name!r} can't be {verb} while session {users[0]!r} runs with it",
                hint="wait until the run has stopped, or take another name",
            )

    def _note_shadow(self, name: str) -> None:
        offer = self.offer(name)
        if offer.shadows:
            # A package that takes the place of a built-in provider may come as a surprise.
            level = logging.WARNING if offer.origin == "entry point" else logging.INFO
            log.log(level, "provider %s is the one of %s and not the built-in one", name, offer.place)


async def set_up(name: str, provider: Provider, seconds: float = INIT_SECONDS) -> None:
    """Raises why the provider can't be used; what `init` took is released again then."""
    try:
        await _init(name, provider, seconds)
        provider.validate()
    except AgentForgeError:
        await shut_down(name, provider)
        raise
    except Exception as error:
        await shut_down(name, provider)
        cause = str(error) or type(error).__name__
        raise ProviderUnusable(f"provider {name!r} can't be used: {cause}") from error
    except BaseException:
        # Cancelled in the middle of it.
        await shut_down(name, provider)
        raise


async def _init(name: str, provider: Provider, seconds: float) -> None:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            await provider.init()
    except TimeoutError:
        if not limit.expired():
            raise
        raise ProviderUnusable(f"provider {name!r} didn't come up within {seconds:g} s") from None


async def shut_down(name: str, provider: Provider) -> None:
    """One that fails to, or doesn't come to an end, holds up nobody."""
    try:
        async with asyncio.timeout(SHUTDOWN_SECONDS):
            await provider.shutdown()
    except Exception:
        log.exception("provider %s failed to shut down", name)


class Unusable:
    def __init__(self, name: str, why: AgentForgeError, provider: Provider | None) -> None:
        """`provider` is the one that it stands in for, where that could be made."""
        self._name = name
        self._why = why
        self._provider = provider

    @property
    def name(self) -> str:
        return self._provider.name if self._provider else self._name

    async def init(self) -> None:
        self.validate()

    async def shutdown(self) -> None:
        pass

    def capabilities(self) -> Capabilities:
        return self._provider.capabilities() if self._provider else Capabilities()

    def validate(self) -> NoReturn:
        raise ProviderUnusable(self._why.message, hint=self._why.hint)

    def command(self, request: ExecuteRequest) -> NoReturn:  # noqa: ARG002 - the port's
        self.validate()

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:  # noqa: ARG002 - the port's
        self.validate()

    def interpret(self, exit: Exit) -> ExecuteResult:
        if self._provider is not None and is_program(self._provider):
            return self._provider.interpret(exit)
        failure = Failure(FailureKind.PROVIDER_MISSING, self._why.message)
        return ExecuteResult(exit.output, exit.exit_code or 0, exit.duration_ms, failure=failure)

    def progress(self, line: str) -> str:
        return self._provider.progress(line) if isinstance(self._provider, ShowsProgress) else line
