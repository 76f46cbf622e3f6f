"""Checks before a run starts: its providers, their settings, its judges, its sandboxes and its queue.

`examine` returns everything that it finds. `run`, `lint` and `dry-run` show all of it."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentforge.app.providers.bounds import spends_nothing, unbounded, with_bounds
from agentforge.app.providers.offers import Origin
from agentforge.app.providers.registry import Registry, RunProviders
from agentforge.definition.machine import SettingProblem, SettingsCheck
from agentforge.definition.precedence import JUDGE_PROVIDER
from agentforge.definition.validate import is_of_definition, named_setting
from agentforge.model.diagnostic import Diagnostic, Severity, SourcePlace
from agentforge.model.errors import AgentForgeError, InvalidSettings, ProviderUnusable
from agentforge.model.failure import Failure
from agentforge.model.plan import Judgment, Plan, ProviderChoice, Queue, StageNode
from agentforge.model.secrets import KEY_HOSTS_HINT
from agentforge.ports.provider import BuildsSandbox, Capabilities, Provider, ValidatesSettings
from agentforge.ports.sandbox import Sandbox
from agentforge.runtime.tasks.call import is_program

ONLINE = frozenset({"claude", "codex", "opencode", "gemini", "api"})
"""Providers that call a model. Even a local model is unreachable without a network."""

ProviderProblem = tuple[str, AgentForgeError]
"""With the name of the provider that it is about; empty: about none."""
ProviderWarning = tuple[str, str]
"""Such a name, and the text."""

log = logging.getLogger("agentforge.providers")
PROBE_SECONDS = 10.0
"""Timeout for initializing a provider only to list it."""


class Readiness(Struct, frozen=True):
    """Whether a plan can run here."""

    plan: Plan
    """With a usable judge for each stage that needs one."""
    problems: tuple[AgentForgeError, ...] = ()
    """Why it can't start."""
    warnings: tuple[str, ...] = ()
    about: Mapping[str, str] = {}
    """The provider that a problem or a warning is about, by the message."""

    def diagnostics(self, file: str, places: Mapping[str, tuple[SourcePlace, str]]) -> tuple[Diagnostic, ...]:
        """What `lint` reports about a definition in this file."""
        nowhere = (SourcePlace(file, 1, 1), "")

        def diagnosed(code: str, severity: Severity, text: str, hint: str = "") -> Diagnostic:
            place, line = places.get(self.about.get(text, ""), nowhere)
            return Diagnostic(code, severity, text, place, hint, line)

        return (
            *(diagnosed(one.code.replace("_", "-"), "error", one.message, one.hint) for one in self.problems),
            *(diagnosed("not-ready", "warning", text) for text in self.warnings),
        )

    def confirmed(self) -> Plan:
        """The plan to run. Raises the first problem with all others, and logs the warnings."""
        if self.problems:
            first, *others = self.problems
            first.others = tuple(others)
            raise first
        for warning in self.warnings:
            log.warning("%s", warning)
        return self.plan


# A run may work for hours before it comes to a stage. So what its last stage lacks is found before the first
# one starts, and everything at once: who installs one missing thing after the other starts the run each time.
# What only a call of the service could tell, such as an expired login, is left to the attempts.
async def examine(
    plan: Plan,
    registry: RunProviders,
    sandboxes: Mapping[str, Sandbox],
    *,
    sandboxed: bool = False,
    chooses_judge: bool = False,
    queue: Failure | None = None,
) -> Readiness:
    """Initialize the providers and sandboxes of a run, and find out what prevents it.

    One usable provider per chain is enough: the others fail when it is their turn. `chooses_judge`: whether a
    stage may be judged by its own provider if the plan's judge is not usable. `queue`: why the queue can't be
    read."""
    broken = await registry.try_ready(sorted(plan.providers() | plan.judges()))
    plan, refused, notes = usable_judges(plan, registry, broken, chooses=chooses_judge)
    plan = with_bounds(plan, registry.known)
    stages = _stages(plan)
    invalid, doubts = _validate_settings(plan, stages, registry, broken)
    unusable_sandboxes = await _unusable_sandboxes(stages, sandboxes)
    problems = [
        *(
            (stage.provider.type, broken[stage.provider.type])
            for stage in stages
            if stage.chain and all(choice.type in broken for choice in stage.chain)
        ),
        *invalid,
        *(("", error) for error in unusable_sandboxes),
        *_unconfined(plan, stages, registry, sandboxed=sandboxed),
        *([] if unusable_sandboxes else _nested_sandboxes(stages, registry, sandboxes)),
        *refused,
        *unbounded(plan, broken, registry.known),
        *(("", error) for error in _unreadable_queue(stages, queue)),
    ]
    distinct = {problem.message: problem for _, problem in problems}
    unusable = (
        (name, f"provider {name} is not usable: {error.message}")
        for name, error in broken.items()
        if name in plan.providers() and error.message not in distinct
    )
    then = "if it fails, stages run to their maximum of iterations"
    logins = (
        (name, f"no login found for the judge {name}; {then}: {fix}")
        for name, fix in registry.without_login(sorted(plan.judges() - broken.keys())).items()
    )
    warnings = dict.fromkeys([*doubts, *logins, *_offline(stages, registry), *unusable, *notes])
    about = {text: name for name, text in warnings} | {one.message: name for name, one in problems}
    return Readiness(
        plan, tuple(distinct.values()), tuple(dict.fromkeys(text for _, text in warnings)), about
    )


async def examine_replay(plan: Plan, sandboxes: Mapping[str, Sandbox]) -> Readiness:
    """A replay calls no provider, but plays in the sandbox of each stage."""
    stages = _stages(plan)
    containers = [
        ProviderUnusable(
            f"stage {stage.id!r} can't be replayed in a container: its image lacks the replay program",
            hint="give a pipeline with `-p FILE` whose stage has another sandbox",
        )
        for stage in stages
        if stage.sandbox is not None and stage.sandbox.type == "docker"
    ]
    return Readiness(spends_nothing(plan), tuple(containers or await _unusable_sandboxes(stages, sandboxes)))


async def examine_mock(plan: Plan, registry: Registry, queue: Failure | None) -> Readiness:
    """In mock mode only the agents are replaced."""
    broken = await registry.try_ready(["mock"])
    return Readiness(spends_nothing(plan), (*broken.values(), *_unreadable_queue(_stages(plan), queue)))


def _stages(plan: Plan) -> list[StageNode]:
    """Each stage once, even if it runs several times."""
    return list({id(stage): stage for step in plan.steps for stage in step.stages}.values())


def _validate_settings(
    plan: Plan, stages: Iterable[StageNode], registry: RunProviders, broken: Mapping[str, AgentForgeError]
) -> tuple[list[ProviderProblem], list[ProviderWarning]]:
    """Problems and warnings: of the settings of each chain, including fallbacks, and of the judges."""
    problems: list[ProviderProblem] = []
    warnings: list[ProviderWarning] = []
    for stage in stages:
        for choice in (
            *stage.chain,
            *((plan.judge_of(stage),) if isinstance(stage.termination, Judgment) else ()),
        ):
            provider = registry[choice.type]
            if choice.type in broken or not isinstance(provider, ValidatesSettings):
                continue
            try:
                found = provider.validate_settings(choice.model, choice.config)
            except ProviderUnusable as error:
                problems += (
                    (choice.type, InvalidSettings(f"stage {stage.id!r}: {one.message}", hint=one.hint))
                    for one in (error, *error.others)
                )
            else:
                # The compiler has reported those about settings, with their lines.
                own = (text for text in found or () if not named_setting(text, choice))
                warnings += ((choice.type, f"stage {stage.id!r}: {text}") for text in own)
    return problems, warnings


async def _unusable_sandboxes(
    stages: Iterable[StageNode], sandboxes: Mapping[str, Sandbox]
) -> list[AgentForgeError]:
    """Probe each sandbox configuration once."""
    needed = {stage.sandbox: stage.id for stage in stages if stage.sandbox and _is_confined(stage)}
    found: list[AgentForgeError] = []
    for choice, stage in needed.items():
        if choice.type not in sandboxes:
            message = f"stage {stage!r}: sandbox {choice.type!r} is not available"
            hint = f"available: {', '.join(sorted(sandboxes)) or 'none'}"
            found.append(ProviderUnusable(message, hint=hint))
            continue
        try:
            await asyncio.to_thread(sandboxes[choice.type].probe, choice)
        except AgentForgeError as error:
            found.append(error)
    return found


def _unconfined(
    plan: Plan, stages: Iterable[StageNode], registry: RunProviders, *, sandboxed: bool
) -> Iterator[ProviderProblem]:
    """Providers that can't run in the stage's sandbox, or must not run without one."""
    for stage in stages:
        confined = _is_confined(stage)
        for choice in stage.chain:
            # Also if it failed to initialize: another run may initialize it while this one is running.
            provider = registry.known(choice.type)
            if provider is None:
                continue
            if confined and not is_program(provider):
                problem = ProviderUnusable(
                    f"stage {stage.id!r} requires a sandbox, but provider {provider.name!r} runs inside the "
                    "engine, which cannot be sandboxed",
                    hint="remove `sandbox` from the stage, or choose a provider that runs a program",
                )
                yield choice.type, problem
            if provider.capabilities().requires_sandbox and not confined and not sandboxed:
                problem = ProviderUnusable(
                    f"provider {provider.name!r} must run in a sandbox, and stage {stage.id!r} has none",
                    hint="add `sandbox: bwrap` to the stage, or use Engine(sandboxed=True) if the whole "
                    "process is isolated",
                )
                yield choice.type, problem
        # The judge runs in the sandbox of the stage that it judges.
        if confined or sandboxed or not isinstance(stage.termination, Judgment):
            continue
        choice = plan.judge_of(stage)
        judge = registry.known(choice.type)
        if judge is not None and judge.capabilities().requires_sandbox:
            problem = ProviderUnusable(
                f"provider {judge.name!r} must run in a sandbox, and stage {stage.id!r}, which it judges, "
                "has none",
                hint="add `sandbox: bwrap` to the stage, or choose another judge with JUDGE_PROVIDER",
            )
            yield choice.type, problem


def _nested_sandboxes(
    stages: Iterable[StageNode], registry: RunProviders, sandboxes: Mapping[str, Sandbox]
) -> Iterator[ProviderProblem]:
    """A sandbox of the agent's own that can't be built fails each of its commands."""
    for stage in stages:
        if stage.sandbox is None or not _is_confined(stage):
            continue
        for choice in stage.chain:
            provider = registry.known(choice.type)
            if not isinstance(provider, BuildsSandbox):
                continue
            problem = sandboxes[stage.sandbox.type].nesting_problem
            instead = provider.builds_sandbox(choice.config) if problem else ""
            if instead:
                yield (
                    choice.type,
                    ProviderUnusable(
                        f"stage {stage.id!r}: with these permissions, {provider.name} creates its own "
                        f"sandbox, which does not work inside {stage.sandbox.type} here: {problem}",
                        hint=f"set {instead}, since {stage.sandbox.type} confines it already; or use "
                        "`sandbox: none`",
                    ),
                )


def _unreadable_queue(stages: Iterable[StageNode], queue: Failure | None) -> Iterator[AgentForgeError]:
    for stage in stages:
        if queue is not None and isinstance(stage.termination, Queue):
            yield ProviderUnusable(f"stage {stage.id!r} ends when its queue is empty: {queue.message}")


def _offline(stages: Iterable[StageNode], registry: RunProviders) -> Iterator[ProviderWarning]:
    for stage in stages:
        if stage.sandbox is None or stage.sandbox.network or not _is_confined(stage):
            continue
        for choice in stage.chain:
            provider = registry.known(choice.type)
            if provider is not None and provider.name in ONLINE:
                yield (
                    choice.type,
                    f"stage {stage.id!r}: {provider.name} needs the network to reach its model, but the "
                    "sandbox disables it; use `network: off` only for stages that run a command",
                )


def _is_confined(stage: StageNode) -> bool:
    return stage.sandbox is not None and stage.sandbox.type != "none"


def settings_check(known: Callable[[str], Provider | None]) -> SettingsCheck:
    """For the compiler: asks providers about the models and settings of a definition. `known`: the provider
    of a name, or None if it is missing or can't be created."""

    def check(choice: ProviderChoice) -> Iterator[SettingProblem]:
        provider = known(choice.type)
        if not isinstance(provider, ValidatesSettings):
            return
        try:
            warnings = provider.validate_settings(choice.model, choice.config) or ()
        except ProviderUnusable as error:
            warnings = error.doubts
            for one in (error, *error.others):
                # Which hosts may get a key depends on the environment.
                if is_of_definition(one.message, choice) and one.hint != KEY_HOSTS_HINT:
                    yield SettingProblem(one.message, one.hint)
        # The others are about this machine, such as a missing key.
        for text in warnings:
            if named_setting(text, choice):
                yield SettingProblem(text, is_error=False)

    return check


class ProviderInfo(Struct, frozen=True):
    name: str
    origin: Origin
    place: str
    usable: bool
    capabilities: Capabilities | None = None
    """None if the provider can't be loaded."""
    problem: str = ""
    fix: str = ""


async def probe_providers(registry: Registry) -> Sequence[ProviderInfo]:
    """Initialize every provider to check whether it is usable; the engine shuts them down."""
    broken = await registry.try_ready(registry.names, PROBE_SECONDS)
    found = []
    for name in registry.names:
        offer, provider, problem = registry.offer(name), registry.known(name), broken.get(name)
        capabilities = provider.capabilities() if provider else None
        reason = (problem.message, problem.hint) if problem else ("", "")
        found.append(ProviderInfo(name, offer.origin, offer.place, problem is None, capabilities, *reason))
    return found


def usable_judges(
    plan: Plan, registry: RunProviders, broken: Mapping[str, AgentForgeError], *, chooses: bool
) -> tuple[Plan, list[ProviderProblem], list[ProviderWarning]]:
    """The plan with a usable judge for each stage that needs one, why there is none, and notes on judges that
    were replaced."""
    problems: list[ProviderProblem] = []
    notes: list[ProviderWarning] = []

    def judged(stage: StageNode) -> StageNode:
        judge = plan.judge_of(stage)
        if not isinstance(stage.termination, Judgment) or judge.type not in broken:
            return stage
        why = broken[judge.type]
        usable = (one for one in stage.chain if chooses and one.type not in broken)
        own = next((one for one in usable if registry[one.type].capabilities().can_judge), None)
        if own is None:
            problems.append((judge.type, _without_judge(stage, judge, why)))
            return stage
        model = f" / {own.model}" if own.model else ""
        reason = f"{judge.type} is not usable: {why.message}"
        notes.append((judge.type, f"stage {stage.id!r} is judged by {own.type}{model}, because {reason}"))
        return replace(stage, judge=own)

    return plan.with_stages(judged), problems, notes


def _without_judge(stage: StageNode, judge: ProviderChoice, why: AgentForgeError) -> ProviderUnusable:
    fix = f"or set {JUDGE_PROVIDER} to a provider that is usable (`agentforge providers`); "
    fix += "a run that is resumed needs --recompile for that"
    return ProviderUnusable(
        f"stage {stage.id!r} has no judge: {judge.type} is not usable: {why.message}",
        hint=f"{why.hint}, {fix}" if why.hint else f"install it, {fix}",
    )
