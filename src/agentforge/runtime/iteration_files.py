"""Writes the files of light iterations from the log, for people and tools."""

import os
from collections.abc import Iterable, Iterator

from agentforge.model.event import Event
from agentforge.model.facts import IterationCompleted
from agentforge.model.layout import IterationLayout, RunLayout, is_inside
from agentforge.system import files


def light_iterations(events: Iterable[Event]) -> Iterator[IterationCompleted]:
    """The iterations whose result and output are only in the log."""
    for event in events:
        if isinstance(event.fact, IterationCompleted) and event.fact.text is not None:
            yield event.fact


def write_iteration_files(layout: RunLayout, iterations: Iterable[IterationCompleted]) -> int:
    """Write result.json and output.md of light iterations; how many were missing."""
    return sum(_write(layout, fact) for fact in iterations)


def _write(layout: RunLayout, fact: IterationCompleted) -> bool:
    if not is_inside(fact.result_file):
        return False
    here = IterationLayout(layout.absolute(os.path.dirname(fact.result_file)))
    if files.is_file(here.result):
        return False
    files.make_dir(here.root)
    if fact.text:
        files.write(here.output, fact.text.encode())
    # Written last: without it, the iteration is written again after a crash.
    files.replace(here.result, files.compact(fact.result))
    return True
