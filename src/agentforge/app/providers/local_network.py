"""`network: local`: what a run would call elsewhere. Asked before it starts, and before each attempt."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from agentforge.adapters.otlp import ENDPOINTS, collector
from agentforge.app.notifications import user_notifications
from agentforge.definition.settings import is_local_user
from agentforge.model.errors import AgentForgeError, InvalidRequest, ProviderUnusable
from agentforge.model.hook import NOTIFY_VARIABLE
from agentforge.model.names import session_argument
from agentforge.model.plan import Judgment, Plan, ProviderChoice
from agentforge.model.secrets import resolve as with_secrets
from agentforge.ports.provider import NamesEndpoints, Provider
from agentforge.ports.sources import Sources
from agentforge.system.loopback import Resolve, remote_problem, resolved

HINT = "use a server on this machine; docs/network.md says how each provider names its own"


def refuse_any_network(plan: Plan, sources: Sources) -> None:
    """Raises InvalidRequest if the user, who allows only what is on this machine, has said so after the run
    was compiled, or if another user compiled it; and DefinitionError if the user's settings are invalid."""
    if plan.is_local or not is_local_user(sources):
        return
    session = session_argument(plan.session.name)
    raise InvalidRequest(
        f"session {plan.session.name!r} may call any server, and your settings have `network: local`",
        hint=f"`agentforge resume {session} --local` continues it on this machine only",
    )


def refuse_remote(owner: str, choice: ProviderChoice, provider: Provider | None, resolve: Resolve) -> None:
    """Raises ProviderUnusable if the provider may call a server elsewhere."""
    begin = f"{owner}: the run has `network: local`, but provider {choice.type}"
    if not isinstance(provider, NamesEndpoints):
        raise ProviderUnusable(f"{begin} doesn't say which servers it calls", hint=HINT)
    try:
        found = provider.endpoints(choice.model, choice.config)
    except ProviderUnusable as error:
        raise ProviderUnusable(f"{begin} is not local: {error.message}", hint=error.hint or HINT) from error
    for address in found.addresses:
        if problem := remote_problem(address, found.environment, resolve):
            raise ProviderUnusable(f"{begin} calls {address}: {problem}", hint=HINT)


def remote_calls(
    plan: Plan,
    provider_of: Callable[[str], Provider | None],
    environ: Mapping[str, str],
    resolve: Resolve = resolved,
    *,
    calls_agents: bool = True,
) -> Iterator[tuple[str, AgentForgeError]]:
    """What a local run must not call, by the name of the provider. Without `calls_agents`, only hooks and
    notifications are called."""
    users: list[tuple[ProviderChoice, list[str]]] = []
    for stage in plan.stages if plan.is_local and calls_agents else ():
        judges = [plan.judge_of(stage)] if isinstance(stage.termination, Judgment) else []
        for choice in (*stage.chain, *judges):
            named = next((ids for known, ids in users if known == choice), None)
            if named is None:
                users.append((choice, named := []))
            if stage.id not in named:
                named.append(stage.id)
    for choice, ids in users:
        owner = f"stage{'s' if len(ids) > 1 else ''} {', '.join(map(repr, ids))}"
        try:
            refuse_remote(owner, choice, provider_of(choice.type), resolve)
        except ProviderUnusable as error:
            yield choice.type, error
    for owner, address in _addresses(plan, environ) if plan.is_local else ():
        if problem := remote_problem(address, {}, resolve):
            message = f"{owner}: the run has `network: local`, but it is sent elsewhere: {problem}"
            yield "", ProviderUnusable(message, hint="remove it, or send it to a service on this machine")


def _addresses(plan: Plan, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    values = {name: environ.get(name, "") for name in plan.pipeline.secrets}
    named = [(f"hook {hook.id!r}", hook.url) for hook in plan.all_hooks]
    named += [("notification", one.url) for one in plan.pipeline.notify]
    yield from ((owner, with_secrets(url, values)) for owner, url in named if url)
    own = user_notifications(environ.get(NOTIFY_VARIABLE, "").strip())
    yield from ((NOTIFY_VARIABLE, one.url) for one in own if one.url)
    with suppress(InvalidRequest):  # No spans are exported then.
        if address := collector(environ):
            yield ENDPOINTS[1], address
