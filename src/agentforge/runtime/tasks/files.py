"""Looks after the files of the project: trees of visits, frozen files, and visits that are undone.

Files are read in a thread. They are replaced in the loop of the engine, between the fact that says what is
replaced and the outcome, so that nothing that ends the task comes in between.
"""

import asyncio
from collections.abc import Callable, Iterable

from agentforge.engine.decide.files import nothing_done
from agentforge.model import facts as f
from agentforge.model.errors import AgentForgeError, UnusableFile
from agentforge.model.event import Event
from agentforge.model.frozen import MAX_INEXACT
from agentforge.model.task import FilesTask
from agentforge.ports.host import NoTree, TakenTree, Trees
from agentforge.runtime.artifacts import StoredArtifacts
from agentforge.runtime.frozen_files import FrozenSet, freeze, paths_in, put_back
from agentforge.runtime.rollback import Conflict, Undo, check_contents, undo, undo_of
from agentforge.runtime.tasks.call import TaskContext, TaskReport
from agentforge.runtime.working_files import WorkingFiles
from agentforge.views.attempt_trees import attempt_trees


class FilesPerformer:
    def __init__(
        self,
        context: TaskContext,
        trees: Trees,
        stored: StoredArtifacts,
        *,
        events: Callable[[], Iterable[Event]],
        changed: Callable[[], None],
    ) -> None:
        """`events`: those of the run. `changed`: called when files are replaced."""
        self._events = events
        self._context = context
        self._trees = trees
        self._stored = stored
        self._changed = changed
        self._workspace = WorkingFiles(context.project)

    async def perform(self, task: FilesTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:  # noqa: ARG002
        if task.ending or self._context.cassette is not None:
            return nothing_done(task)
        try:
            match task.action:
                case "look":
                    return await asyncio.to_thread(self._look, task)
                case "freeze":
                    return await asyncio.to_thread(self._freeze, task)
                case "restore":
                    return await self._restore(task, report)
                case "rollback":  # exhaustive
                    return await self._roll_back(task, report)
        except Conflict as found:
            reason = self._context.redactor.text(found.reason)
            return f.RollbackRefused(**task.names, paths=found.paths, reason=reason)
        except AgentForgeError as error:
            return f.FilesFailed(**task.names, message=self._context.redactor.text(error.message))

    # -- trees

    def _look(self, task: FilesTask) -> f.VisitTree:
        taken = self._trees.take() if self._trees.is_possible() else NoTree("the project is not a folder")
        if isinstance(taken, TakenTree) and len(taken.inexact) > MAX_INEXACT:
            problem = f"more than {MAX_INEXACT:,} files are too large, or have a secret in them"
            taken = NoTree(problem)
        if isinstance(taken, NoTree):
            return f.VisitTree(**task.names, problem=self._context.redactor.text(taken.reason))
        return f.VisitTree(**task.names, tree=taken.id, inexact=taken.inexact)

    def _taken(self, task: FilesTask) -> TakenTree:
        """Also as a reference in the user's repository. Raises UnusableFile."""
        taken = self._trees.take()
        if isinstance(taken, NoTree):
            raise UnusableFile(f"the files can't be kept: {taken.reason}")
        visit = f"{task.place.path}-{task.place.run}-{task.iteration}"
        self._trees.keep(taken.id, f"{self._context.run_id}/{visit}-{task.about.replace(' ', '-')}")
        return taken

    # -- frozen files

    def _freeze(self, task: FilesTask) -> f.FilesFrozen:
        paths = [
            path
            for artifact in self._stored.of_stage(task.place.path, task.place.branch)
            for path in paths_in(artifact, task.node.freeze, self._context.project)
        ]
        taken = self._taken(task)
        files = freeze(paths, taken, self._trees, self._workspace)
        return f.FilesFrozen(**task.names, stage=task.node.id, files=tuple(files), tree=taken.id)

    async def _restore(self, task: FilesTask, report: TaskReport) -> f.AnyFilesFact:
        kept = FrozenSet(task.frozen)
        wrong = await asyncio.to_thread(kept.deviations, self._workspace)
        replaced, paths = task.prepared or "", task.paths
        if wrong:
            found = tuple(one.path for one in wrong)
            tree = await asyncio.to_thread(self._kept, task, found)
            report(f.FilesPrepared(**task.names, tree=tree, paths=found))
            self._changed()
            put_back(wrong, self._trees, self._workspace)
            replaced, paths = replaced or tree, tuple(dict.fromkeys((*paths, *found)))
        if not paths:
            return f.FrozenVerified(**task.names)
        return f.FilesRestored(**task.names, paths=paths, replaced=replaced, count=task.restorations + 1)

    async def _roll_back(self, task: FilesTask, report: TaskReport) -> f.FilesRolledBack:
        taken, found = await asyncio.to_thread(self._undo, task)
        paths = tuple(one.path for one in found)
        if found:
            report(f.FilesPrepared(**task.names, tree=taken.id, paths=paths))
            self._changed()
            undo(found, self._trees, self._workspace)
        return f.FilesRolledBack(
            **task.names,
            paths=tuple(dict.fromkeys((*task.paths, *paths))),
            replaced=task.prepared or (taken.id if paths else ""),
            to=(task.began and task.began.tree) or "",
        )

    def _undo(self, task: FilesTask) -> tuple[TakenTree, list[Undo]]:
        pairs, taken = attempt_trees(self._events(), task.place), self._taken(task)
        found = undo_of(pairs, taken, self._trees)
        check_contents(found, self._trees)
        return taken, found

    def _kept(self, task: FilesTask, paths: tuple[str, ...]) -> str:
        """The tree of all files, with the content of those that are going to be replaced."""
        taken = self._taken(task)
        known = self._trees.files(taken.id, paths)
        for path, file in known.items() if isinstance(known, dict) else ():
            self._trees.hold(path, file)
        return taken.id
