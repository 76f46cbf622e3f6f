"""Which providers there are for a project, and where each comes from; none is made before it is wanted."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from msgspec import Struct

from agentforge import __version__
from agentforge.adapters.entry_points import offered_providers
from agentforge.adapters.providers.builtin import builtin_providers
from agentforge.ports.provider import Provider
from agentforge.sdk.described_providers import described_provider, find_described

Origin = Literal["registered", "project", "entry point", "built in"]


class Offer(Struct, frozen=True):
    name: str
    origin: Origin
    place: str
    """The package or file that it comes from."""
    make: Callable[[], Provider]
    """Raises ProviderUnusable with the reason."""
    shadows: bool = False
    """Whether it stands in for something built in."""


def find_offers(project: str, environ: Mapping[str, str]) -> dict[str, Offer]:
    """By name. What the project describes wins over what packages offer, and both over what is built in."""
    found = {name: _builtin(name, provider) for name, provider in builtin_providers(environ).items()}
    builtin = frozenset(found)
    for name, offered in offered_providers().items():
        load = _bound(offered.load, environ)
        found[name] = Offer(name, "entry point", offered.place, load, shadows=name in builtin)
    for name, file in find_described(project).items():
        make = partial(described_provider, project, name, file, environ)
        found[name] = Offer(name, "project", file, make, shadows=name in builtin)
    return found


def _builtin(name: str, provider: Provider) -> Offer:
    return Offer(name, "built in", f"agentforge {__version__}", lambda: provider)


def _bound(
    load: Callable[[Mapping[str, str]], Provider], environ: Mapping[str, str]
) -> Callable[[], Provider]:
    return lambda: load(environ)
