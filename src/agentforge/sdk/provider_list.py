"""What there is to choose from: every provider with its origin, what it can do, and why it can't be used."""

from collections.abc import Sequence

from msgspec import Struct

from agentforge.model.errors import AgentForgeError
from agentforge.ports.provider import Capabilities
from agentforge.sdk.offers import Origin
from agentforge.sdk.registry import Registry

LOOK_SECONDS = 10.0
"""How long a provider may take to come up, when it is only looked at."""


class ProviderInfo(Struct, frozen=True):
    name: str
    origin: Origin
    place: str
    usable: bool
    capabilities: Capabilities | None = None
    """Nothing of one that can't even be loaded."""
    problem: str = ""
    fix: str = ""


async def look_at_all(registry: Registry) -> Sequence[ProviderInfo]:
    """Each is brought up to see whether it does; the engine shuts them down."""
    broken = await registry.try_ready(registry.names, LOOK_SECONDS)
    return [_info(registry, name, broken.get(name)) for name in registry.names]


def _info(registry: Registry, name: str, problem: AgentForgeError | None) -> ProviderInfo:
    offer = registry.offer(name)
    return ProviderInfo(
        name,
        offer.origin,
        offer.place,
        problem is None,
        registry.capabilities(name),
        problem.message if problem else "",
        problem.hint if problem else "",
    )
