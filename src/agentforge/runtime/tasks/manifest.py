"""Writes the manifest of a parallel block and the state files of its branches."""

from agentforge.model import facts as f
from agentforge.model.task import ManifestTask
from agentforge.runtime.journal import Journal
from agentforge.runtime.state_writer import write_branch_files
from agentforge.runtime.tasks.call import TaskContext
from agentforge.system import files
from agentforge.views.files.block import manifest


class ManifestPerformer:
    """Writing it again after a crash produces the same file."""

    def __init__(self, context: TaskContext, journal: Journal) -> None:
        self._context = context
        self._journal = journal

    def do(self, task: ManifestTask) -> f.AnyFact:
        plan, layout, journal = self._context.plan, self._context.layout, self._journal
        # Neither file may be ahead of the log.
        journal.wait_for_disk()
        path = layout.manifest(task.place.folder)
        content = manifest(plan, task.place.path, layout, journal.model.history, journal.now())
        write_branch_files(layout, plan, journal.state)
        files.replace(path, files.pretty(content))
        return f.ManifestWritten(layout.relative(path))
