"""Recorded runs: making a recording, finding one, running it again without its agents, and comparing its
course with that of a pipeline as it is now."""

import os
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentforge.adapters.providers.replay import ReplayProvider
from agentforge.app.definitions import recompiled
from agentforge.app.redaction import environment_redactor
from agentforge.app.runs.lookup import Runs
from agentforge.app.wiring import workspace_of
from agentforge.definition.compiler import Compiled, PipelineSource
from agentforge.definition.yaml.parser import SourceText
from agentforge.engine.legal import refuse_shell_run
from agentforge.engine.rehearsal.course import Rehearsal
from agentforge.engine.rehearsal.enact import enact
from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.model.cassette import FORMAT, VERSION, Cassette, Header, parse_cassette
from agentforge.model.errors import InvalidRequest, ProviderUnusable
from agentforge.model.event import Event
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan, PlanSession
from agentforge.model.session_name import session_name
from agentforge.model.state import RunSettings
from agentforge.ports.event_log import Damage
from agentforge.ports.provider import Provider
from agentforge.runtime.journal import Journal
from agentforge.runtime.recorder import Recorder
from agentforge.system import files
from agentforge.version import __version__


class Replay(Struct, frozen=True):
    """What is played instead of asking anybody."""

    content: bytes
    speed: float = 0.0
    """2 is twice as fast as recorded, 0 doesn't wait."""
    plateau_test: bool = False


class Recording(Struct, frozen=True):
    """A cassette, and where it is from."""

    path: str
    content: bytes
    cassette: Cassette

    @property
    def name(self) -> str:
        """The session that was recorded, or the file's own name."""
        return self.cassette.header.session or os.path.splitext(os.path.basename(self.path))[0]

    @property
    def notes(self) -> list[str]:
        """What couldn't be kept when it was recorded."""
        return [note for exchange in self.cassette.exchanges for note in exchange.notes]

    def replay(self, speed: float) -> Replay:
        return Replay(self.content, speed, self.cassette.header.plateau_test)


def find_recording(runs: Runs, source: str) -> Recording:
    """The cassette of a session, or a cassette's file."""
    if is_cassette_file(source):
        return _read(os.path.abspath(source))
    runs.log(source)
    path = runs.layout(source).cassette
    if not os.path.exists(path):
        raise InvalidRequest(
            f"session {source!r} wasn't recorded: there is no {path}",
            hint=f"run it with --record; `agentforge replay {source} --check` needs its log only",
        )
    return _read(path)


def is_cassette_file(source: str) -> bool:
    """Whether a path is meant, not a session."""
    return source.endswith(".jsonl") or os.sep in source


def compiled_for_replay(
    compile: Callable[..., Compiled],
    recording: Recording,
    pipeline: PipelineSource | None,
    session: str | None,
) -> Compiled:
    """The recorded plan, or another pipeline, under a name of its own. `compile` is the engine's."""
    name = session_name(session or f"{recording.name[:56]}-replay")
    plan, text = recording.cassette.header.plan, recording.cassette.header.pipeline
    if pipeline is not None:
        if plan is None:
            return compile(pipeline, session=name)
        return compile(pipeline, session=name, overrides=plan.pipeline.overrides, passes=plan.passes)
    if plan is None:
        raise InvalidRequest(
            f"{recording.path} doesn't say which pipeline it is a recording of",
            hint="give the pipeline with -p FILE",
        )
    named = PlanSession(name, plan.session.created_at, plan.session.inputs)
    return Compiled(replace(plan, session=named), (), SourceText(plan.source.path, text))


def _read(path: str) -> Recording:
    content = files.read_bytes(path)
    if content is None:
        raise InvalidRequest(f"there is no cassette {path}", hint="give a session or the path of a cassette")
    try:
        cassette = parse_cassette(content.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"cassette {path} can't be read: not UTF-8 text") from error
    except ProviderUnusable as error:
        raise InvalidRequest(error.message, hint=error.hint) from error
    return Recording(path, content, cassette)


def recorder_of(
    journal: Journal, layout: RunLayout, project: str, environ: Mapping[str, str]
) -> Recorder | None:
    """Of a run that is recorded: its cassette, begun or continued."""
    settings, plan = journal.state.settings, journal.plan
    if not settings.record:
        return None
    redactor = environment_redactor(environ)
    header = Header(
        FORMAT,
        VERSION,
        name=plan.pipeline.name,
        session=plan.session.name,
        engine=__version__,
        pipeline=redactor.text(files.read_text(f"{layout.root}/pipeline.yaml") or ""),
        plateau_test=settings.plateau_test,
    )
    recorder = Recorder(
        project, layout, plan, workspace_of(project, environ), redactor=redactor, header=header
    )
    recorder.begin()
    return recorder


def played_provider(settings: RunSettings, layout: RunLayout, environ: Mapping[str, str]) -> Provider | None:
    """Who stands for every provider and the judge in a replay."""
    if settings.replay is None:
        return None
    config = {"cassette": layout.replayed, "speed": settings.replay}
    return ReplayProvider(environ, config=config, for_all=True)


class CourseComparison(Struct, frozen=True):
    """A past run beside a pipeline as it is now."""

    session: str
    pipeline: str
    """What was rehearsed: the file of a pipeline or of a stage."""
    rehearsal: Rehearsal
    damage: tuple[Damage, ...] = ()
    """Lines of the log that couldn't be taken into account."""

    @property
    def is_same(self) -> bool:
        return self.rehearsal.is_same


def compare_course(
    compile: Callable[..., Compiled], runs: Runs, source: str, pipeline: PipelineSource | None = None
) -> CourseComparison:
    """Rehearse a run, given as a session or a cassette, with its current definition or with another pipeline.
    `compile` is the engine's."""
    damage: tuple[Damage, ...] = ()
    if is_cassette_file(source):
        recording = find_recording(runs, source)
        plan, events = _plan_of(recording), _enacted(recording)
    else:
        info = runs.info(source, cached=False)
        refuse_shell_run(info.state)
        plan, events, damage = info.plan, tuple(runs.events(source)), info.damage
    compiled = recompiled(compile, plan, pipeline)
    rehearsal = rehearse(compiled.plan, events)
    return CourseComparison(plan.session.name, compiled.plan.source.path, rehearsal, damage)


def _plan_of(recording: Recording) -> Plan:
    plan = recording.cassette.header.plan
    if plan is None:
        raise InvalidRequest(
            f"{recording.path} was written by hand: it doesn't hold the plan to compare with",
            hint="give a session, or a cassette that `--record` made",
        )
    return plan


def _enacted(recording: Recording) -> Sequence[Event]:
    header = recording.cassette.header
    try:
        return enact(_plan_of(recording), recording.cassette.exchanges, plateau_test=header.plateau_test)
    except ValueError as error:
        raise InvalidRequest(
            f"{recording.path} can't be compared: {error}", hint="give the session instead of the cassette"
        ) from error
