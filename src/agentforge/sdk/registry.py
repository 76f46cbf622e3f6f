"""The providers an engine knows, each set up once and shut down on every way out."""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from agentforge.model.errors import AgentForgeError, ProviderUnusable, UnknownProvider
from agentforge.ports.provider import Provider

log = logging.getLogger("agentforge.providers")


class Registry:
    def __init__(self, builtin: Mapping[str, Provider]) -> None:
        self._providers: dict[str, Provider] = dict(builtin)
        self._ready: set[str] = set()
        self._setting_up = asyncio.Lock()
        self.turns: dict[str, asyncio.Lock] = {}
        """For each provider that stands one call at a time, by its own name."""

    @property
    def names(self) -> list[str]:
        return sorted(self._providers)

    def __getitem__(self, name: str) -> Provider:
        try:
            return self._providers[name]
        except KeyError:
            raise UnknownProvider(
                f"unknown provider {name!r}", hint=f"available: {', '.join(self.names)}"
            ) from None

    async def register(self, name: str, provider: Provider) -> None:
        """Set the provider up; one that fails to come up isn't registered."""
        await _set_up(name, provider)
        await self._shut_down(name)
        self._providers[name] = provider
        self._admit(name, provider)

    async def make_ready(self, names: Iterable[str]) -> None:
        """Set up those built-in providers that a run needs and that no run needed before."""
        async with self._setting_up:
            # Runs that begin at once would else set the same provider up twice.
            for name in names:
                provider = self[name]
                if name not in self._ready:
                    await _set_up(name, provider)
                    self._admit(name, provider)

    async def close(self) -> None:
        for name in list(self._ready):
            await self._shut_down(name)

    def _admit(self, name: str, provider: Provider) -> None:
        self._ready.add(name)
        if not provider.capabilities().concurrent:
            self.turns.setdefault(provider.name, asyncio.Lock())

    async def _shut_down(self, name: str) -> None:
        if name not in self._ready:
            return
        self._ready.discard(name)
        await _shut_down(name, self._providers[name])


async def _set_up(name: str, provider: Provider) -> None:
    try:
        await provider.init()
        await _validate(name, provider)
    except AgentForgeError:
        raise
    except Exception as error:
        raise ProviderUnusable(f"provider {name!r} can't be used: {error}") from error


async def _validate(name: str, provider: Provider) -> None:
    """What `init` took is released again if the provider turns out to be unusable."""
    try:
        provider.validate()
    except Exception:
        await _shut_down(name, provider)
        raise


async def _shut_down(name: str, provider: Provider) -> None:
    try:
        await provider.shutdown()
    except Exception:
        log.exception("provider %s failed to shut down", name)
