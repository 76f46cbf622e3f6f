"""One call of `pipeline`, `loop` or `STAGE`: what is to run, from when, with which options."""

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from agentforge.cli.overrides import as_arguments, overrides_of

if TYPE_CHECKING:
    from agentforge.definition.compiler import Compiled
    from agentforge.model.facts import TmuxSessionCleaned
    from agentforge.sdk.engine import Engine


class Wanted(Struct, frozen=True):
    session: str | None
    options: dict[str, Any]
    """Those of `overriding`."""
    pipeline: str | None = None
    stage: str | None = None
    count: int | None = None
    """How often the pipeline is to run, or the stage at most."""
    force: bool = False
    recompile: bool = False
    is_resumed: bool = False
    record: bool = False

    def compiled(self, engine: "Engine") -> "Compiled":
        asked = overrides_of(self.options)
        if self.stage is not None:
            return engine.compile(
                stage=self.stage, session=self.session, max_iterations=self.count, overrides=asked
            )
        return engine.compile(self.pipeline, session=self.session, passes=self.count or 1, overrides=asked)

    def recompiled(self, engine: "Engine") -> "Compiled | bool":
        """The plan by which a resumed run is to go on; none if it keeps its own."""
        if not self.recompile or self.session is None:
            return False
        # What is said to a run that goes on is added to its context, not put in its place.
        asked = overrides_of({**self.options, "context": None})
        if self.stage is not None:
            return engine.recompile(self.session, overrides=replace(asked, max_iterations=self.count))
        return engine.recompile(self.session, self.pipeline, overrides=asked, passes=self.count)

    def arguments(self, project: str, session: str, cleaned: "TmuxSessionCleaned | None") -> list[str]:
        """The same call, as it is made in the background."""
        flags = {
            "--force": self.force,
            "--resume": self.is_resumed,
            "--recompile": self.recompile,
            "--record": self.record,
        }
        line = ["pipeline" if self.stage is None else "loop", "-C", project, "--foreground"]
        line += [flag for flag, given in flags.items() if given]
        if cleaned is not None:
            line.append(f"--cleaned-tmux={cleaned.name}:{cleaned.pid or ''}")
        count = [] if self.count is None else [str(self.count)]
        return [*line, *as_arguments(self.options), "--", self.stage or self.pipeline or "", session, *count]
