"""Whether a pipeline would route a past run differently. Reads the log (or a cassette) and the definition,
nothing else."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from agentforge.engine.enacting import enact
from agentforge.engine.legal import refuse_original
from agentforge.engine.rehearsal import rehearse
from agentforge.model.errors import InvalidRequest
from agentforge.model.event import Event
from agentforge.model.plan import Plan
from agentforge.model.route import Rehearsal
from agentforge.ports.event_log import Damage
from agentforge.sdk.compiling import PipelineSource
from agentforge.sdk.recompiling import source_to_compile
from agentforge.sdk.replaying import Recording, find_recording, is_cassette_file

if TYPE_CHECKING:
    from agentforge.definition.compiler import Compiled
    from agentforge.sdk.engine import Engine


class RouteCheck(Struct, frozen=True):
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


def check_route(engine: "Engine", source: str, pipeline: PipelineSource | None = None) -> RouteCheck:
    """Rehearse a run, given as a session or as a cassette, with its own definition as it is now, or with
    another pipeline."""
    damage: tuple[Damage, ...] = ()
    if is_cassette_file(source):
        recording = find_recording(engine.runs, source)
        plan, events = _plan_of(recording), _enacted(recording)
    else:
        info = engine.inspect(source)
        refuse_original(info.state)
        plan, events, damage = info.plan, tuple(engine.events(source)), info.damage
    compiled = _compiled(engine, plan, pipeline)
    rehearsal = rehearse(compiled.plan, events)
    return RouteCheck(plan.session.name, compiled.plan.source.path, rehearsal, damage)


def _compiled(engine: "Engine", plan: Plan, pipeline: PipelineSource | None) -> "Compiled":
    """What was asked for when the run began still holds."""
    session, asked = plan.session.name, plan.pipeline.overrides
    if pipeline is None and plan.mode == "loop":
        stage = plan.only_stage.stage
        return engine.compile(
            stage=stage, session=session, overrides=asked, max_iterations=asked.max_iterations
        )
    source = source_to_compile(plan) if pipeline is None else pipeline
    return engine.compile(source, session=session, overrides=asked, passes=plan.passes)


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
