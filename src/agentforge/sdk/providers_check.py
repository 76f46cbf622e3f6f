"""What the project and packages offer beside the built-in providers, and which sandboxes there are."""

from collections.abc import Callable, Mapping

from agentforge.model.errors import AgentForgeError
from agentforge.model.plan import SandboxChoice
from agentforge.ports.sandbox import Sandbox
from agentforge.sdk.checks import Check
from agentforge.sdk.offers import Offer, find_offers
from agentforge.sdk.wiring import sandboxes

_TRIED = {
    "bwrap": (SandboxChoice("bwrap", network=False), "a confined program starts"),
    "docker": (SandboxChoice("docker", image="any"), "client and engine answer"),
}


def provider_checks(project: str, environ: Mapping[str, str]) -> list[Check]:
    """None of them is set up here: that might call somebody. `agentforge providers` does."""
    offers = find_offers(project, environ)
    built_in = [name for name, offer in offers.items() if offer.origin == "built in"]
    others = [offer for offer in offers.values() if offer.origin != "built in"]
    return [
        Check("providers", "built in", "ok", ", ".join(sorted(built_in))),
        *(_offer(offer) for offer in sorted(others, key=lambda offer: offer.name)),
    ]


def _offer(offer: Offer) -> Check:
    where = f"{offer.origin}: {offer.place}"
    try:
        offer.make()
    except AgentForgeError as error:
        said = error.message if error.message.startswith(offer.place) else f"{where}: {error.message}"
        return Check("providers", offer.name, "warning", said, error.hint)
    if offer.shadows:
        return Check("providers", offer.name, "note", f"{where}; stands in for the built-in one")
    return Check("providers", offer.name, "ok", where)


def sandbox_checks(environ: Mapping[str, str]) -> list[Callable[[], list[Check]]]:
    return [_trial(sandbox) for sandbox in sandboxes(environ).values()]


def _trial(sandbox: Sandbox) -> Callable[[], list[Check]]:
    def check() -> list[Check]:
        choice, works = _TRIED[sandbox.name]
        try:
            sandbox.check(choice)
        except AgentForgeError as error:
            said = error.message.removeprefix(f"sandbox {sandbox.name}").lstrip(": ")
            return [Check("sandboxes", sandbox.name, "note", said, error.hint)]
        return [Check("sandboxes", sandbox.name, "ok", works)]

    return check
