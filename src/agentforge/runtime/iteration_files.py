"""Writes the files of light iterations from the log, for people and tools."""

import os
from collections import deque
from collections.abc import Iterable

from agentforge.model.event import Event
from agentforge.model.facts import IterationCompleted
from agentforge.model.layout import IterationLayout
from agentforge.system import files

LATEST = 10
"""How many iterations of each stage are written when the run ends or pauses."""


def write_iteration_files(events: Iterable[Event], latest: int | None = None) -> int:
    """Write result.json and output.md of the latest iterations of each stage, or of all; returns how many
    were missing."""
    kept: dict[object, deque[IterationCompleted]] = {}
    for event in events:
        if isinstance(event.fact, IterationCompleted) and event.fact.text is not None:
            at = event.cursor
            stage = (at.node_path, at.node_run, at.provider) if at else None
            kept.setdefault(stage, deque(maxlen=latest)).append(event.fact)
    return sum(_write(fact) for facts in kept.values() for fact in facts)


def _write(fact: IterationCompleted) -> bool:
    here = IterationLayout(os.path.dirname(fact.result_file))
    if os.path.exists(here.result):
        return False
    files.make_dir(here.root)
    if fact.text:
        files.write(here.output, fact.text.encode())
    # Written last: without it, the iteration is written again after a crash.
    files.replace(here.result, files.compact(fact.result))
    return True
