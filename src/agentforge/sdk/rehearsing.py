"""Whether a pipeline would route a past run differently. Reads the log and the definition, nothing else."""

from typing import TYPE_CHECKING

from msgspec import Struct

from agentforge.engine.legal import refuse_original
from agentforge.engine.rehearsal import rehearse
from agentforge.model.route import Rehearsal
from agentforge.ports.event_log import Damage
from agentforge.sdk.compiling import PipelineSource

if TYPE_CHECKING:
    from agentforge.definition.compiler import Compiled
    from agentforge.sdk.engine import Engine


class RouteCheck(Struct, frozen=True):
    """A past run beside a pipeline as it is now."""

    session: str
    pipeline: str
    """What was rehearsed: a file, or the stage of a single-stage run."""
    rehearsal: Rehearsal
    damage: tuple[Damage, ...] = ()
    """Lines of the log that couldn't be taken into account."""

    @property
    def is_same(self) -> bool:
        return self.rehearsal.is_same


def check_route(engine: "Engine", session: str, pipeline: PipelineSource | None = None) -> RouteCheck:
    """Rehearse a run with its own definition as it is now, or with another pipeline."""
    info = engine.inspect(session)
    refuse_original(info.state)
    compiled = compiled_for(engine, session, pipeline)
    rehearsal = rehearse(compiled.plan, tuple(engine.events(session)))
    return RouteCheck(info.session, compiled.plan.source.path, rehearsal, info.damage)


def compiled_for(engine: "Engine", session: str, pipeline: PipelineSource | None) -> "Compiled":
    """What was asked for when the run began still holds."""
    if pipeline is None:
        return engine.recompile(session)
    plan = engine.status(session).plan
    return engine.compile(
        pipeline, session=plan.session.name, overrides=plan.pipeline.overrides, passes=plan.passes
    )
