"""The providers of one run: those that its plan describes, and for all others the engine's."""

import asyncio
from collections.abc import Iterable, Mapping

from agentforge.adapters.providers.cli import CliAgent
from agentforge.app.providers.logins import agent_login
from agentforge.app.providers.offers import provider_from
from agentforge.app.providers.registry import Registry, Unusable
from agentforge.definition.yaml.parser import SourceText
from agentforge.model.errors import AgentForgeError
from agentforge.model.plan import Plan
from agentforge.ports.provider import Provider


class RunProviders:
    def __init__(self, registry: Registry, plan: Plan, environ: Mapping[str, str]) -> None:
        self._registry = registry
        self._environ = environ
        self._pinned: dict[str, CliAgent] = {}
        self._broken: dict[str, AgentForgeError] = {}
        for name, text in plan.descriptions.items():
            if not registry.is_registered(name):
                self._describe(name, text, environ)

    def _describe(self, name: str, text: str, environ: Mapping[str, str]) -> None:
        try:
            self._pinned[name] = provider_from(SourceText(f"{name}.yaml", text), name, environ)
        except AgentForgeError as error:
            self._broken[name] = error

    def __getitem__(self, name: str) -> Provider:
        """The provider, or a placeholder that raises the reason if it isn't usable."""
        if name in self._broken:
            return Unusable(name, self._broken[name], self._pinned.get(name))
        return self._pinned[name] if name in self._pinned else self._registry[name]

    @property
    def locks(self) -> Mapping[str, asyncio.Lock]:
        return self._registry.locks

    def known(self, name: str) -> Provider | None:
        """The provider, usable or not, or None if it can't be created."""
        if name in self._pinned or name in self._broken:
            return self._pinned.get(name)
        return self._registry.known(name)

    def permissions(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The arguments that let CLI agents work without asking, by provider."""
        known = {name: self.known(name) for name in names}
        return {
            name: found.cli.permission_arguments
            for name, found in known.items()
            if isinstance(found, CliAgent)
        }

    def without_login(self, names: Iterable[str]) -> dict[str, str]:
        """The CLI agents for which neither an API key nor a login is found, each with the fix."""
        known = {name: self.known(name) for name in names}
        logins = {
            name: agent_login(found.cli, found.cli.program_name, self._environ)
            for name, found in known.items()
            if isinstance(found, CliAgent) and found.cli.keys
        }
        return {name: login.fix for name, login in logins.items() if not login.credentials}

    async def try_ready(self, names: Iterable[str]) -> dict[str, AgentForgeError]:
        """Initialize the providers; returns the errors by provider."""
        unique = dict.fromkeys(names)
        for name in unique:
            if (provider := self._pinned.get(name)) is not None:
                self._registry.note_shadow(name)
                try:
                    provider.validate()
                except AgentForgeError as error:
                    self._broken[name] = error
        own = self._pinned.keys() | self._broken.keys()
        broken = await self._registry.try_ready(name for name in unique if name not in own)
        return broken | {name: self._broken[name] for name in unique if name in self._broken}
