"""Keeps state.json and the head outside the workspace up to date: at most once a second, and at every change
of status or node."""

from time import monotonic

from agentforge.model.layout import RunLayout
from agentforge.model.place import folder_of
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.runtime.journal import Journal
from agentforge.runtime.state_folder import HeadKeeper
from agentforge.system import files
from agentforge.views.files.block import branch_file
from agentforge.views.files.state import state_file

SECONDS_BETWEEN = 1.0


class StateWriter:
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
        write_branch_files(self._layout, journal.plan, journal.state)
        self._keeper.keep(journal.state.run_id, head)
        self._written_at = monotonic()


def write_branch_files(layout: RunLayout, plan: Plan, state: RunState) -> None:
    """Write the files of every branch that has started; does nothing outside a block."""
    if state.block is None or state.block.path not in plan.places:
        return
    folder = folder_of(plan, state.block)
    for branch in state.block.branches:
        if branch.started_at is not None:
            path = layout.branch_state(f"{folder}/providers/{branch.provider}")
            files.make_dir(path.rpartition("/")[0])
            files.replace(path, files.pretty(branch_file(plan, state, branch)))
