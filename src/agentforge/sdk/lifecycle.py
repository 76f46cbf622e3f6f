"""A provider's life: init, then validate; shutdown once, whatever became of the two."""

import asyncio
import logging

from agentforge.model.errors import AgentForgeError, ProviderUnusable
from agentforge.ports.provider import Provider

log = logging.getLogger("agentforge.providers")

INIT_SECONDS = 60.0
SHUTDOWN_SECONDS = 10.0


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
