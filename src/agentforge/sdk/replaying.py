"""A recorded run, ready to be run again without its agents."""

import os
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.compiler import Compiled
from agentforge.definition.source import SourceText
from agentforge.host import files
from agentforge.model.cassette import Cassette, parse_cassette
from agentforge.model.errors import InvalidRequest, ProviderUnusable
from agentforge.model.ids import session_name
from agentforge.model.plan import PlanSession
from agentforge.sdk.compiling import PipelineSource

if TYPE_CHECKING:
    from agentforge.sdk.engine import Engine
    from agentforge.sdk.runs import Runs


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


def find_recording(runs: "Runs", source: str) -> Recording:
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
    engine: "Engine", recording: Recording, pipeline: PipelineSource | None, session: str | None
) -> Compiled:
    """The recorded plan, or another pipeline, under a name of its own."""
    name = session_name(session or f"{recording.name[:56]}-replay")
    plan, text = recording.cassette.header.plan, recording.cassette.header.pipeline
    if pipeline is not None:
        if plan is None:
            return engine.compile(pipeline, session=name)
        return engine.compile(pipeline, session=name, overrides=plan.pipeline.overrides, passes=plan.passes)
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
