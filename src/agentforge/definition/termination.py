"""When a stage ends, merged from what the node and its stage.yaml say."""

from msgspec import Struct

from agentforge.definition.spec import TerminationSpec, WorkSpec, Written
from agentforge.model.plan import Fixed, Judgment, Queue, Termination

FIXED = "fixed"
KINDS = (FIXED, "judgment", "queue")
LATER = ("items",)


class Merged(Struct, frozen=True):
    type: Written[str] | None
    """None means fixed."""
    count: Written[int] | None
    """None if no file says how often."""
    min_iterations: Written[int] | None
    consensus: Written[int] | None
    check_before: Written[bool] | None
    command: Written[str] | None

    @property
    def kind(self) -> str:
        return self.type.value if self.type else FIXED

    def lowered(self, runs: int) -> Termination:
        """Settings that the type doesn't have are dropped: they were written for the type it had before."""
        if self.kind == "judgment":
            return Judgment(runs, _value(self.min_iterations), _value(self.consensus))
        if self.kind == "queue":
            command = self.command.value if self.command else None
            return Queue(runs, bool(self.check_before and self.check_before.value), command)
        return Fixed(runs)


def merge(node: WorkSpec, stage: WorkSpec) -> Merged:
    """Key by key. The node was written last, so it wins, also with its `runs` over the stage's `max`."""
    mine, theirs = node.termination or _SILENT, stage.termination or _SILENT
    return Merged(
        type=mine.type or theirs.type,
        count=mine.count or node.runs or theirs.count or stage.runs,
        min_iterations=mine.min_iterations or theirs.min_iterations,
        consensus=mine.consensus or theirs.consensus,
        check_before=mine.check_before or node.check_before or theirs.check_before or stage.check_before,
        command=mine.command or theirs.command,
    )


def _value(written: Written[int] | None) -> int | None:
    return written.value if written else None


_SILENT = TerminationSpec()
