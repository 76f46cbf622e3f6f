"""The providers of an engine, each initialized and validated once and shut down with the engine; and those of
one run, which are the same apart from those that its plan describes."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from inspect import isawaitable
from typing import TYPE_CHECKING, NoReturn

from agentforge.adapters.cli_agents.program import ProgramProvider
from agentforge.app.providers.logins import agent_login
from agentforge.app.providers.offers import METHODS, Offer
from agentforge.definition.report import SourceText
from agentforge.model.diagnostic import choice
from agentforge.model.errors import AgentForgeError, InvalidRequest, ProviderUnusable, UnknownProvider
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import Plan
from agentforge.ports.provider import (
    Capabilities,
    ExecuteRequest,
    ExecuteResult,
    Exit,
    Provider,
    ShowsProgress,
)
from agentforge.runtime.tasks.call import is_program
from agentforge.system.work_limit import WorkLimit

if TYPE_CHECKING:
    from agentforge.adapters.cli_agents.description import AgentCli

log = logging.getLogger("agentforge.providers")
INIT_SECONDS = 60.0
SHUTDOWN_SECONDS = 10.0


# A provider is set up once for an engine, whatever the number of its runs and names: it may hold a connection
# or start a server. So all that changes which providers are up happens under one lock, and a name can't be
# given to another provider while a run uses it. What fails to start is kept as the reason, not raised: one
# usable provider of a chain is enough, and the others fail when it is their turn, as attempts that the log
# shows.
class Registry:
    def __init__(
        self, find: Callable[[], Mapping[str, Offer]], registered: Mapping[str, Provider] | None = None
    ) -> None:
        """`find` is called once, when the first provider is needed."""
        self._find = find
        self._registered: dict[str, Provider] = dict(registered or {})
        self._made: dict[str, Provider] = {}
        self._ready: dict[str, Provider] = {}
        """A provider with two names is initialized once, and shut down with its last name."""
        self._broken: dict[str, AgentForgeError] = {}
        self._used_by: dict[str, frozenset[str]] = {}
        self._setting_up = asyncio.Lock()
        self.locks: dict[str, asyncio.Lock] = {}
        """For each provider that isn't concurrent, by the provider's own name."""

    @property
    def names(self) -> list[str]:
        return sorted({*self._offers, *self._registered})

    def is_registered(self, name: str) -> bool:
        """Whether it was registered in code, which overrides everything else."""
        return name in self._registered

    def offer(self, name: str) -> Offer:
        """The offer that the provider comes from."""
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
        """The provider, or a placeholder that raises the reason if it isn't usable."""
        if name in self._broken:
            return Unusable(name, self._broken[name], self.known(name))
        return self._provider(name)

    def known(self, name: str) -> Provider | None:
        """The provider, usable or not, or None if it can't be created."""
        try:
            return self._provider(name)
        except AgentForgeError:
            return None

    async def register(self, name: str, provider: Provider) -> None:
        """Initialize the provider, and register it if that succeeds."""
        async with self._setting_up:
            self._refuse_in_use(name, "replaced")
            if not self._is_up(provider):
                await set_up(name, _complete(name, provider))
            if self._ready.get(name) is not provider:
                await self._take_down(name)
            self._registered[name] = provider
            self._admit(name, provider)

    async def unregister(self, name: str) -> None:
        """Shut down a registered provider; one that it overrode is available again."""
        async with self._setting_up:
            offer = self.offer(name)
            if offer.origin != "registered":
                raise InvalidRequest(
                    f"provider {name!r} was not registered in code: it is {offer.origin} ({offer.place})",
                    hint="register another provider under its name to override it",
                )
            self._refuse_in_use(name, "unregistered")
            await self._take_down(name)
            del self._registered[name]

    async def try_ready(
        self, names: Iterable[str], seconds: float = INIT_SECONDS
    ) -> dict[str, AgentForgeError]:
        """Initialize the providers that aren't initialized yet. Returns the errors by provider; later lookups
        raise them too, until the provider is initialized."""
        requested = tuple(dict.fromkeys(names))
        async with self._setting_up:
            # Otherwise concurrent runs would initialize the same provider twice.
            for name in requested:
                self._broken.pop(name, None)
                if name in self._ready:
                    continue
                try:
                    provider = self._provider(name)
                    if not self._is_up(provider):
                        await set_up(name, provider, seconds)
                    self._admit(name, provider)
                except AgentForgeError as error:
                    self._broken[name] = error
        return {name: self._broken[name] for name in requested if name in self._broken}

    def hold(self, session: str, names: Iterable[str]) -> None:
        """Mark the providers as in use by a run: they can't be replaced until it is released."""
        self._used_by[session] = frozenset(names)

    def release(self, session: str) -> None:
        self._used_by.pop(session, None)

    async def close(self) -> None:
        """Shut down all providers, even if the caller is cancelled meanwhile."""

        async def shut_all() -> None:
            async with self._setting_up:
                up = {id(provider): (name, provider) for name, provider in self._ready.items()}
                self._ready.clear()
                await asyncio.gather(*(shut_down(name, provider) for name, provider in up.values()))

        closing = asyncio.ensure_future(shut_all())
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
            return _complete(name, self._registered[name])
        if name not in self._made:
            self._made[name] = _complete(name, self.offer(name).make())
        return self._made[name]

    def _is_up(self, provider: Provider) -> bool:
        return any(one is provider for one in self._ready.values())

    def _admit(self, name: str, provider: Provider) -> None:
        self._ready[name] = provider
        self._broken.pop(name, None)
        self.note_shadow(name)
        if not provider.capabilities().concurrent:
            self.locks.setdefault(provider.name, asyncio.Lock())

    async def _take_down(self, name: str) -> None:
        provider = self._ready.pop(name, None)
        self._broken.pop(name, None)
        if provider is not None and not self._is_up(provider):
            await shut_down(name, provider)

    def _refuse_in_use(self, name: str, verb: str) -> None:
        users = sorted(session for session, names in self._used_by.items() if name in names)
        if users:
            raise InvalidRequest(
                f"provider {name!r} can't be {verb} while session {users[0]!r} is using it",
                hint="wait until the run has stopped, or use another name",
            )

    def note_shadow(self, name: str) -> None:
        offer = self.offer(name) if name in self.names else None
        if offer is not None and offer.shadows:
            # A package that overrides a built-in provider may be a surprise.
            level = logging.WARNING if offer.origin == "entry point" else logging.INFO
            log.log(level, "provider %s comes from %s, which overrides the built-in one", name, offer.place)


class RunProviders:
    """The providers of one run: those that its plan describes, and for all others the engine's."""

    def __init__(self, registry: Registry, plan: Plan, environ: Mapping[str, str]) -> None:
        self._registry = registry
        self._environ = environ
        self._pinned: dict[str, Provider] = {}
        self._broken: dict[str, AgentForgeError] = {}
        for name, text in plan.descriptions.items():
            if registry.is_registered(name):
                continue
            from agentforge.app.providers.described import provider_from

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
        return {name: cli.permission_arguments for name, cli in self._agents(names)}

    def without_login(self, names: Iterable[str]) -> dict[str, str]:
        """The CLI agents for which neither an API key nor a login is found, each with the fix."""
        logins = {
            name: agent_login(cli, cli.program_name, self._environ)
            for name, cli in self._agents(names)
            if cli.keys
        }
        return {name: login.fix for name, login in logins.items() if not login.credentials}

    def _agents(self, names: Iterable[str]) -> "Iterator[tuple[str, AgentCli]]":
        for name in names:
            found = self.known(name)
            if isinstance(found, ProgramProvider) and found.cli is not None:
                yield name, found.cli

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


def _complete(name: str, provider: Provider) -> Provider:
    """The provider. Raises ProviderUnusable if it lacks a method."""
    missing = [method for method in METHODS if not callable(getattr(provider, method, None))]
    missing += [] if hasattr(provider, "name") else ["name"]
    if missing:
        raise ProviderUnusable(
            f"provider {name!r} is incomplete: {type(provider).__name__} lacks {', '.join(missing)}",
            hint="add what `agentforge.provider.Provider` declares; docs/sdk.md has an example",
        )
    try:
        found: object = provider.capabilities()
    except Exception as error:
        raise ProviderUnusable(
            f"provider {name!r}: `capabilities` raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, Capabilities):
        raise ProviderUnusable(
            f"provider {name!r}: `capabilities` returned {type(found).__name__}, not Capabilities",
            hint="return `agentforge.provider.Capabilities()`; docs/sdk.md has an example",
        )
    return provider


async def set_up(name: str, provider: Provider, seconds: float = INIT_SECONDS) -> None:
    """Initialize and validate the provider. On failure, shut it down and raise the reason."""
    try:
        await _init(name, provider, seconds)
        provider.validate()
    except AgentForgeError:
        await shut_down(name, provider)
        raise
    except Exception as error:
        await shut_down(name, provider)
        cause = str(error) or type(error).__name__
        raise ProviderUnusable(
            f"provider {name!r} is not usable: {cause}",
            hint="`agentforge doctor` checks the providers; fix the cause, or choose another with --provider",
        ) from error
    except BaseException:
        # Cancelled.
        await shut_down(name, provider)
        raise


async def _init(name: str, provider: Provider, seconds: float) -> None:
    limit = WorkLimit(seconds)
    try:
        async with limit:
            returned: object = provider.init()
            if not isawaitable(returned):
                raise ProviderUnusable(
                    f"provider {name!r}: `init` is not async", hint="write `async def init`"
                )
            await returned
    except TimeoutError:
        if not limit.expired():
            raise
        raise ProviderUnusable(
            f"provider {name!r} failed to initialize within {seconds:g} s",
            hint="check that the service it connects to is reachable, or choose another with --provider",
        ) from None


async def shut_down(name: str, provider: Provider) -> None:
    """Shut down the provider; a failure or timeout is only logged."""
    try:
        async with WorkLimit(SHUTDOWN_SECONDS):
            returned: object = provider.shutdown()
            if isawaitable(returned):
                await returned
    except Exception:
        log.exception("provider %s failed to shut down", name)


class Unusable:
    def __init__(self, name: str, reason: AgentForgeError, provider: Provider | None) -> None:
        """`provider` is the unusable provider itself, or None if it can't be created."""
        self._name = name
        self._reason = reason
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
        raise ProviderUnusable(self._reason.message, hint=self._reason.hint)

    def command(self, request: ExecuteRequest) -> NoReturn:  # noqa: ARG002 - the port's
        self.validate()

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:  # noqa: ARG002 - the port's
        self.validate()

    def interpret(self, exit: Exit) -> ExecuteResult:
        if self._provider is not None and is_program(self._provider):
            return self._provider.interpret(exit)
        failure = Failure(FailureKind.PROVIDER_MISSING, self._reason.message)
        return ExecuteResult(exit.output, exit.exit_code or 0, exit.duration_ms, failure=failure)

    def progress(self, line: str) -> str:
        return self._provider.progress(line) if isinstance(self._provider, ShowsProgress) else line
