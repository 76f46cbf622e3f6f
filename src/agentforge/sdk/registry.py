"""The providers an engine knows, each set up once and shut down on every way out."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from agentforge.definition.diagnostics import choice
from agentforge.model.errors import AgentForgeError, InvalidRequest, UnknownProvider
from agentforge.ports.provider import Capabilities, Provider
from agentforge.sdk.lifecycle import INIT_SECONDS, set_up, shut_down
from agentforge.sdk.offers import Offer
from agentforge.sdk.unusable import Unusable

log = logging.getLogger("agentforge.providers")


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

    def capabilities(self, name: str) -> Capabilities | None:
        """Also of one that didn't come up; nothing of one that can't be made."""
        provider = self.known(name)
        return provider.capabilities() if provider else None

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
