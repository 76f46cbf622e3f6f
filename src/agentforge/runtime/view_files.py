"""Writes the files that show a run: state.json, those of a parallel block, and those of light iterations.

All of them are derived from the log, and none is ever ahead of it.
"""

import os
from collections.abc import Iterable, Iterator
from time import monotonic

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.layout import IterationLayout, RunLayout, is_inside
from agentforge.model.place import folder_of
from agentforge.model.task import ManifestTask
from agentforge.runtime.journal import Journal
from agentforge.runtime.state_folder import HeadKeeper
from agentforge.system import files
from agentforge.views.files.block import branch_file, manifest
from agentforge.views.files.state import state_file

SECONDS_BETWEEN = 1.0


class StateWriter:
    """Keeps state.json and the head outside the workspace up to date: at most once a second, and at every
    change of status or node."""

    def __init__(self, layout: RunLayout, journal: Journal, keeper: HeadKeeper) -> None:
        self._layout = layout
        self._journal = journal
        self._keeper = keeper
        self._written_at = -SECONDS_BETWEEN
        self._turn: tuple[object, ...] = ()

    async def write_if_due(self) -> None:
        state = self._journal.state
        branches = tuple(branch.status for branch in state.block.branches) if state.block else ()
        turn = (state.status, type(state.at), state.cursor and state.cursor.node_path, branches)
        if turn != self._turn or monotonic() - self._written_at >= SECONDS_BETWEEN:
            self._turn = turn
            await self.write()

    async def write(self) -> None:
        """Sync the log first: neither file may be ahead of it."""
        await self._journal.sync()
        # If another log has taken the place of ours, the view beside it belongs to that one.
        self._journal.writer.verify()
        self.put()

    def put(self) -> None:
        """Write without syncing, for a caller that has synced."""
        journal, model = self._journal, self._journal.model
        head = journal.writer.head
        content = state_file(
            journal.plan,
            journal.state,
            model.summary,
            model.history,
            head=head,
            buffer=journal.writer.health,
        )
        files.replace(self._layout.state, files.pretty(content))
        _write_branch_files(self._layout, journal)
        self._keeper.keep(journal.state.run_id, head)
        self._written_at = monotonic()


def _write_branch_files(layout: RunLayout, journal: Journal) -> None:
    """Write the files of every branch that has started; does nothing outside a block."""
    plan, state = journal.plan, journal.state
    if state.block is None or state.block.path not in plan.places:
        return
    folder = folder_of(plan, state.block)
    for branch in state.block.branches:
        if branch.started_at is not None:
            path = layout.branch_state(f"{folder}/providers/{branch.provider}")
            files.make_dir(path.rpartition("/")[0])
            files.replace(path, files.pretty(branch_file(plan, state, branch)))


def light_iterations(events: Iterable[Event]) -> Iterator[f.IterationCompleted]:
    """The iterations whose result and output are only in the log."""
    for event in events:
        if isinstance(event.fact, f.IterationCompleted) and event.fact.text is not None:
            yield event.fact


def write_iteration_files(layout: RunLayout, iterations: Iterable[f.IterationCompleted]) -> int:
    """Write result.json, output.md and artifact.json of light iterations; how many were missing."""
    written = 0
    for fact in iterations:
        if not is_inside(fact.result_file):
            continue  # The log may have been written elsewhere.
        here = IterationLayout(layout.absolute(os.path.dirname(fact.result_file)))
        if files.is_file(here.result):
            continue
        files.make_dir(here.root)
        if fact.text:
            files.write(here.output, fact.text.encode())
        if fact.artifact and fact.artifact.value is not None:
            files.write(here.artifact, files.compact(fact.artifact.value))
        # Written last: without it, the iteration is written again after a crash.
        files.replace(here.result, files.compact(fact.result))
        written += 1
    return written


class ManifestPerformer:
    """Writes the manifest of a parallel block. Writing it again after a crash produces the same file."""

    def __init__(self, layout: RunLayout, journal: Journal) -> None:
        self._layout = layout
        self._journal = journal

    def do(self, task: ManifestTask) -> f.AnyFact:
        layout, journal = self._layout, self._journal
        # Neither file may be ahead of the log.
        journal.wait_for_disk()
        path = layout.manifest(task.place.folder)
        content = manifest(journal.plan, task.place.path, layout, journal.model.history, journal.now())
        _write_branch_files(layout, journal)
        files.replace(path, files.pretty(content))
        return f.ManifestWritten(layout.relative(path))
