"""Assembles what drives one run: its performers of tasks, with all that they need of the engine and the
machine. Nothing else names them all."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

from agentforge.adapters.beads import Beads
from agentforge.adapters.environment import secrets_in
from agentforge.adapters.host.git_delivery import GitDelivery
from agentforge.adapters.host.git_trees import GitTrees
from agentforge.adapters.host.tree_scan import FolderTrees
from agentforge.adapters.providers.command import ScriptProvider
from agentforge.app.providers.local_network import refuse_remote
from agentforge.app.providers.registry import RunProviders
from agentforge.app.redaction import environment_redactor, references_of_answers
from agentforge.app.runs.context import RunContext
from agentforge.app.runs.daily import daily_ledger, run_ledger
from agentforge.model.errors import InvalidRequest
from agentforge.model.event import Event
from agentforge.model.layout import RunLayout
from agentforge.model.plan import NETWORK
from agentforge.ports.host import Trees
from agentforge.ports.provider import Provider
from agentforge.runtime.artifacts import ArtifactRules, StoredArtifacts
from agentforge.runtime.briefings import Briefings, sent_by
from agentforge.runtime.confinement import Confiner
from agentforge.runtime.driver import Driver, Performers, RunView
from agentforge.runtime.journal import Journal
from agentforge.runtime.left_files import refuse_here
from agentforge.runtime.state_folder import HeadKeeper, OutputCopies, StateFolder
from agentforge.runtime.supervision import Supervised
from agentforge.runtime.tasks.agent import AgentPerformer, TreeRecord
from agentforge.runtime.tasks.call import Calls, TaskContext
from agentforge.runtime.tasks.check import CheckPerformer
from agentforge.runtime.tasks.deliver import DeliverPerformer, RepositoryPerformer
from agentforge.runtime.tasks.files import FilesPerformer
from agentforge.runtime.tasks.items import ItemsPerformer
from agentforge.runtime.tasks.judge import JudgePerformer
from agentforge.runtime.tasks.ledger import AllowAll, Settling
from agentforge.runtime.tasks.performer import Performer
from agentforge.runtime.tasks.prepare import LightStages, Preparer, result_writers
from agentforge.runtime.tasks.queue import QueuePerformer
from agentforge.runtime.view_files import ManifestPerformer
from agentforge.system.loopback import resolved
from agentforge.views.artifacts import run_keys
from agentforge.views.record import RunRecord, record_of

if TYPE_CHECKING:
    from agentforge.app.runs.replay import PlayedRun


def driver_of(context: RunContext, journal: Journal) -> Driver:
    layout, environ = context.runs.layout(journal.session), context.environ
    keeper = HeadKeeper(layout.root, environ)

    def keep_head() -> None:
        """So that a log that is cut later lacks no start of an agent unnoticed."""
        if journal.synced is not None:
            keeper.keep(journal.state.run_id, journal.synced)

    supervised = Supervised(
        context.processes,
        context.options["limits"],
        context.project,
        layout.log,
        secrets=secrets_in(environ),
        before_start=keep_head,
    )
    played = None
    if journal.state.settings.replay is not None:
        from agentforge.app.runs.replay import played_run

        played = played_run(journal, layout, environ)
    record = _record_of(context, journal)
    return Driver(
        journal,
        layout,
        _performers(context, journal, supervised, played, record),
        keeper=keeper,
        secrets=references_of_answers(environ),
        played=played.answers if played else None,
        views=tuple(_views(context, journal, layout, record)),
    )


# A replay has the same performers; only what they call is played, so that it goes through the same code as
# the recorded run.
def _performers(
    context: RunContext,
    journal: Journal,
    supervised: Supervised,
    played: "PlayedRun | None",
    record: Callable[[], RunRecord],
) -> Performers:
    """By kind of task."""
    plan, settings, project, clock = journal.plan, journal.state.settings, context.project, context.clock
    environ, history = context.environ, journal.model.history
    shared = _shared_by_tasks(context, journal, played)
    layout, redactor = shared.layout, shared.redactor
    providers = RunProviders(context.registry, plan, environ)

    def provider_of(name: str) -> Provider:
        return played.provider if played else providers["mock" if settings.mock else name]

    confiner = Confiner(context.sandboxes, project, layout, plan, context.placeholders, environ=environ)
    refuse = refuse_here(journal, layout)
    locks = context.registry.locks
    is_called = played is None and not settings.mock
    # Again for each attempt: a name may lead elsewhere by then.
    admit = partial(refuse_remote, resolve=resolved) if plan.is_local and is_called else None
    calls = Calls(provider_of, locks, supervised, confiner, run_dir=layout.root, refuse=refuse, admit=admit)
    script = ScriptProvider(environ)
    scripts = Calls(lambda _: script, {}, supervised, confiner, run_dir=layout.root, refuse=refuse)
    light = LightStages(plan, provider_of, is_kept=shared.recorder is not None)
    writers = result_writers(provider_of)
    state = journal.state
    keys = run_keys(state.started_at, state.run_id, state.user_request)
    stored = StoredArtifacts(plan, layout, history, keys)
    queue = Beads(project, plan.session.name, environ)
    known, reports = StateFolder(layout.root, environ).of_project("files"), plan.check_reports
    trees: Trees = GitTrees(project, layout.trees, environ, redactor, without=reports, known=known)
    # Checks need trees also where git has none: what they say counts for the files that they saw.
    checked = trees if trees.is_possible() else FolderTrees(project, layout.trees, redactor, without=reports)
    patch = partial(_patch, context, layout) if trees.is_possible() else None
    briefings = Briefings(layout, record, checked, sent_by(provider_of), patch)
    preparer = Preparer(
        shared,
        history,
        is_light=light,
        writes_result=writers,
        stored=stored,
        briefings=briefings,
        refuse=refuse,
    )
    repository = GitDelivery(project, layout.trees, checked, environ, partial(_whole_patch, context, layout))
    deliver = DeliverPerformer(
        shared,
        repository,
        context.processes,
        stored=stored,
        history=history,
        passed_tests=partial(_passed_tests, journal),
    )
    found = daily_ledger(layout, plan, settings, environ, clock)
    ledger = run_ledger(found, layout, state.run_id, environ, clock) if found else None

    def events() -> Iterable[Event]:
        journal.wait_for_disk()
        return context.runs.events(journal.session)

    # Where a visit may be undone, what its attempts changed has to be known exactly.
    keeps = plan.keeps_trees or plan.delivers
    tree_record = TreeRecord(checked, clock, 0.0) if keeps else TreeRecord(trees, clock)
    agent: Performer = AgentPerformer(
        shared,
        calls,
        preparer,
        clock,
        tree_record,
        always=keeps,
        artifacts=ArtifactRules(plan, layout, keys),
    )
    judge: Performer = JudgePerformer(shared, calls, history)
    return Performers(
        {
            "prepare": preparer,
            "items": ItemsPerformer(stored),
            "ledger": ledger or AllowAll(),
            "manifest": ManifestPerformer(layout, journal),
        },
        {
            "agent": Settling(agent, ledger) if ledger else agent,
            "judge": Settling(judge, ledger) if ledger else judge,
            "queue": QueuePerformer(shared, queue, clock),
            "check": CheckPerformer(shared, scripts, checked, stored),
            "files": FilesPerformer(shared, checked, stored, events=events, changed=tree_record.forget),
            "repository": RepositoryPerformer(shared, repository),
            "deliver": deliver,
            "hook": context.hooks.performer(shared, journal, clock, scripts),
        },
    )


def _patch(context: RunContext, layout: RunLayout, before: str, after: str) -> bytes:
    from agentforge.app.runs.comparison import TreeComparison  # Only summaries need it.

    with suppress(InvalidRequest):  # An agent that can't be told the change may look at the files.
        return TreeComparison(context.project, [layout.trees], context.environ).patch(
            before, after, binary=False
        )
    return b""


def _whole_patch(context: RunContext, layout: RunLayout, before: str, after: str) -> bytes:
    from agentforge.app.runs.comparison import TreeComparison

    with suppress(InvalidRequest):
        return TreeComparison(context.project, [layout.trees], context.environ).patch(
            before, after, binary=True
        )
    return b""


def _passed_tests(journal: Journal) -> int:
    """In the latest check that counts them, of the visits of the run."""
    visits = sorted(journal.model.summary.visits, key=lambda visit: visit.started_at)
    counts = (run.counts.passed for visit in reversed(visits) for run in reversed(visit.latest_checks))
    return next((passed for passed in counts if passed), 0)


def _record_of(context: RunContext, journal: Journal) -> Callable[[], RunRecord]:
    """The record of the run, which briefings and a view need: folded when it is first asked for."""

    @cache
    def record() -> RunRecord:
        journal.wait_for_disk()
        found = record_of(context.runs.events(journal.session))
        journal.listen(found.apply)
        return found

    return record


def _shared_by_tasks(context: RunContext, journal: Journal, played: "PlayedRun | None") -> TaskContext:
    plan, layout = journal.plan, context.runs.layout(journal.session)
    recorder = None
    if journal.state.settings.record:
        from agentforge.app.runs.replay import recorder_of

        recorder = recorder_of(journal, layout, context.runs)
    # What describes the run to agents and to the tools that they start.
    variables = {"CLAUDE_PIPELINE_AGENT": "1"}
    if plan.is_local:
        variables[NETWORK] = "local"
    if plan.mode == "loop":
        variables["CLAUDE_PIPELINE_SESSION"] = plan.session.name
        variables["CLAUDE_PIPELINE_TYPE"] = plan.only_stage.stage
    return TaskContext(
        project=context.project,
        layout=layout,
        plan=plan,
        run_id=journal.state.run_id,
        environment=variables,
        redactor=environment_redactor(context.environ),
        environ=context.environ,
        copies=OutputCopies(context.project, layout.root, context.environ),
        recorder=recorder,
        cassette=played.cassette if played else None,
    )


def _views(
    context: RunContext, journal: Journal, layout: RunLayout, record: Callable[[], RunRecord]
) -> Iterator[RunView]:
    """They follow the log from its start, so that files which a killed engine didn't write are written."""
    # Both read or write YAML, which few runs need.
    if journal.plan.pipeline.has_escalations:
        from agentforge.runtime.escalations import EscalationWriter

        journal.wait_for_disk()
        escalations = EscalationWriter(layout, journal.plan, context.runs.events(journal.session))
        journal.listen(escalations.apply)
        yield escalations
    if journal.plan.pipeline.has_controller_view:
        from agentforge.runtime.pipeline_view import PipelineWriter

        states = PipelineWriter(layout, record())
        journal.listen(states.apply)
        yield states
