"""When a stage ends, merged from what the node and its stage.yaml say."""

from msgspec import Struct

from agentforge.definition.spec import WorkSpec, Written

FIXED = "fixed"
LATER = ("judgment", "queue", "items")


class Merged(Struct, frozen=True):
    type: Written[str] | None
    """Nothing: fixed."""
    count: Written[int] | None
    """Nothing: nobody says how often."""


def merge(node: WorkSpec, stage: WorkSpec) -> Merged:
    """The node was written last, so it wins: its `termination`, its `runs`, then the stage's.

    A node that changes the type drops what belongs to the stage's own type; `max` is common to all.
    """
    kind = (node.termination and node.termination.type) or (stage.termination and stage.termination.type)
    return Merged(kind or None, _count(node) or _stage_count(node, stage))


def _count(work: WorkSpec) -> Written[int] | None:
    return (work.termination and work.termination.count) or work.runs


def _stage_count(node: WorkSpec, stage: WorkSpec) -> Written[int] | None:
    theirs = stage.termination
    if theirs is None:
        return stage.runs
    mine = node.termination.type.value if node.termination and node.termination.type else None
    if mine and mine != (theirs.type.value if theirs.type else FIXED):
        return theirs.max or stage.runs
    return theirs.count or stage.runs
