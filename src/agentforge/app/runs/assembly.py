"""Assembles what drives one run: its performers of tasks, with all that they need of the engine and the
machine. Nothing else names them all."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypedDict

from agentforge.adapters.beads import Beads
from agentforge.adapters.environment import secrets_in
from agentforge.adapters.host.machine import SystemClock
from agentforge.adapters.providers.command import ScriptProvider
from agentforge.adapters.providers.mock import is_mock_mode
from agentforge.adapters.providers.replay import load_cassette
from agentforge.app.hooks import HookRegistry
from agentforge.app.providers.offers import find_offers
from agentforge.app.providers.registry import Registry, RunProviders
from agentforge.app.redaction import environment_redactor, references_of_answers
from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.replay import played_answers, played_provider, recorder_of
from agentforge.app.wiring import checked_trees, local_processes, sandboxes, trees_of
from agentforge.model.hook import OnFailure
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan
from agentforge.model.run_options import Argument
from agentforge.ports.host import Clock
from agentforge.ports.provider import Provider
from agentforge.runtime.confinement import Confiner, Placeholders
from agentforge.runtime.driver import Driver, Performers
from agentforge.runtime.journal import Journal
from agentforge.runtime.left_files import refuse_here
from agentforge.runtime.state_folder import HeadKeeper, OutputCopies
from agentforge.runtime.supervision import Supervised, SupervisorLimits
from agentforge.runtime.tasks.agent import AgentPerformer, TreeRecord
from agentforge.runtime.tasks.call import Calls, TaskContext
from agentforge.runtime.tasks.check import CheckPerformer
from agentforge.runtime.tasks.judge import JudgePerformer
from agentforge.runtime.tasks.prepare import LightStages, Preparer, result_writers
from agentforge.runtime.tasks.queue import QueuePerformer
from agentforge.runtime.view_files import ManifestPerformer

if TYPE_CHECKING:
    from agentforge.runtime.escalations import EscalationWriter

STOP_GRACE = 30.0


class EngineOptions(TypedDict, total=False):
    """Of `Engine` and `SyncEngine`."""

    providers: Annotated[Mapping[str, Provider] | None, Argument(None)]
    environ: Annotated[Mapping[str, str] | None, Argument(None)]
    limits: Annotated[SupervisorLimits, Argument(SupervisorLimits())]
    stop_grace: Annotated[float, Argument(STOP_GRACE)]
    """Seconds for an agent to finish its iteration when the run is stopped."""
    clock: Annotated[Clock, Argument(SystemClock())]
    sandboxed: Annotated[bool, Argument(False)]
    """The whole process is isolated, so providers that require a sandbox can run without one."""
    hook_errors: Annotated[OnFailure, Argument("continue")]
    """What a run does after an exception in a hook of this program."""


class EngineParts:
    """What all runs of an engine share."""

    def __init__(self, runs: Runs, options: EngineOptions) -> None:
        self.runs = runs
        self.project, self.environ = runs.project, runs.environ
        self.options = options
        self.clock = options["clock"]
        self.processes = local_processes()
        self.registry = Registry(partial(find_offers, runs.project, runs.environ), options["providers"])
        self.hooks = HookRegistry(options["hook_errors"])
        self.sandboxes = sandboxes(runs.environ, runs.project)
        self.placeholders = Placeholders(runs.project)

    @property
    def is_mock(self) -> bool:
        return is_mock_mode(self.environ)


def driver_of(parts: EngineParts, journal: Journal) -> Driver:
    layout = parts.runs.layout(journal.session)
    keeper = HeadKeeper(layout.root, parts.environ)
    return Driver(
        journal,
        layout,
        _performers(parts, journal, layout, _supervised(parts, journal, layout, keeper)),
        keeper=keeper,
        secrets=references_of_answers(parts.environ),
        played=played_answers(journal, layout),
        view=_escalations(parts, journal, layout) if journal.plan.pipeline.has_escalations else None,
    )


def _supervised(parts: EngineParts, journal: Journal, layout: RunLayout, keeper: HeadKeeper) -> Supervised:
    def keep_head() -> None:
        """So that a log that is cut later lacks no start of an agent unnoticed."""
        if journal.synced is not None:
            keeper.keep(journal.state.run_id, journal.synced)

    return Supervised(
        parts.processes,
        parts.options["limits"],
        parts.project,
        layout.log,
        secrets=secrets_in(parts.environ),
        before_start=keep_head,
    )


# A replay has the same performers; only what they call is played (`played_provider`, `load`), so that it goes
# through the same code as the recorded run.
def _performers(
    parts: EngineParts, journal: Journal, layout: RunLayout, supervised: Supervised
) -> Performers:
    """By kind of task."""
    plan, settings, project, clock = journal.plan, journal.state.settings, parts.project, parts.clock
    context = _context(parts, journal, layout)
    played = played_provider(settings, layout, parts.environ)
    providers = RunProviders(parts.registry, plan, parts.environ)

    def provider_of(name: str) -> Provider:
        return played or providers["mock" if settings.mock else name]

    confiner = Confiner(parts.sandboxes, project, layout, plan, parts.placeholders, environ=parts.environ)
    refuse = refuse_here(journal, layout)
    calls = Calls(provider_of, parts.registry.locks, supervised, confiner, run_dir=layout.root, refuse=refuse)
    script = ScriptProvider(parts.environ)
    scripts = Calls(lambda _: script, {}, supervised, confiner, run_dir=layout.root, refuse=refuse)
    history = journal.model.history
    light = LightStages(plan, provider_of, is_kept=context.recorder is not None)
    writers = result_writers(provider_of)
    preparer = Preparer(project, layout, plan, history, is_light=light, writes_result=writers, refuse=refuse)
    queue = Beads(project, plan.session.name, parts.environ)
    trees = trees_of(project, layout, plan, parts.environ, context.redactor)
    load = partial(load_cassette, layout.replayed)
    return Performers(
        {"prepare": preparer, "manifest": ManifestPerformer(layout, journal)},
        {
            "agent": AgentPerformer(context, calls, preparer, clock, TreeRecord(trees, clock)),
            "judge": JudgePerformer(context, calls, history),
            "queue": QueuePerformer(context, queue, load, clock),
            "check": CheckPerformer(
                context, scripts, checked_trees(project, layout, plan, trees, context.redactor)
            ),
            "hook": parts.hooks.performer(
                context,
                journal,
                clock,
                scripts=scripts,
                load=load,
            ),
        },
    )


def _context(parts: EngineParts, journal: Journal, layout: RunLayout) -> TaskContext:
    return TaskContext(
        project=parts.project,
        layout=layout,
        plan=journal.plan,
        run_id=journal.state.run_id,
        environment=_agent_environment(journal.plan),
        redactor=environment_redactor(parts.environ),
        environ=parts.environ,
        copies=OutputCopies(parts.project, layout.root, parts.environ),
        recorder=recorder_of(journal, layout, parts.runs, parts.environ),
        is_replay=journal.state.settings.replay is not None,
    )


def _agent_environment(plan: Plan) -> dict[str, str]:
    """Variables that describe the run to agents and the tools that they start."""
    variables = {"CLAUDE_PIPELINE_AGENT": "1"}
    if plan.mode == "loop":
        variables["CLAUDE_PIPELINE_SESSION"] = plan.session.name
        variables["CLAUDE_PIPELINE_TYPE"] = plan.only_stage.stage
    return variables


def _escalations(parts: EngineParts, journal: Journal, layout: RunLayout) -> "EscalationWriter":
    """Follows the log from its start, so that files which a killed engine didn't write are written."""
    # Reads YAML, which few runs need.
    from agentforge.runtime.escalations import EscalationWriter

    journal.wait_for_disk()
    writer = EscalationWriter(layout, journal.plan, parts.runs.events(journal.session))
    journal.listen(writer.apply)
    return writer
