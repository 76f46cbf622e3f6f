"""What the hooks of a program are told about a run."""

from msgspec import Struct

from agentforge.model.cursor import Cursor
from agentforge.model.hook import HookPoint
from agentforge.model.layout import RunLayout
from agentforge.model.place import folder_of
from agentforge.model.request import Request
from agentforge.model.result import Result
from agentforge.model.state import RunState
from agentforge.model.task import HookTask
from agentforge.runtime.journal import Journal
from agentforge.system import files

MAX_PROGRESS = 64 * 1024


class HookContext(Struct, frozen=True, kw_only=True):
    """What a hook is told about the run."""

    session: str
    point: HookPoint
    state: RunState
    """The state of the run when the hook is called."""
    stage: str = ""
    """The id of the stage or block; empty at the points of the run as a whole."""
    iteration: int = 0
    provider: str = ""
    """That of the stage; inside a parallel block, the branch."""
    place: Cursor | None = None
    result: Result | None = None
    """Of the latest iteration of the stage or branch."""
    context: str = ""
    """The notes that people and hooks have added so far."""
    progress: str = ""
    """The end of the stage's progress file."""
    request: Request | None = None
    """At `request`: what is asked."""
    delivery: str = ""
    """Identifies the call: the same if it is repeated after a crash."""
    attempt: int = 1


class HookContexts:
    """The contexts of the calls of one run."""

    def __init__(self, journal: Journal, layout: RunLayout) -> None:
        self._journal = journal
        self._layout = layout

    def of(self, task: HookTask) -> HookContext:
        at, history = task.at, self._journal.model.history
        # At its start, a branch has no result of its own: the latest one is of an earlier visit of the block.
        has_result = at is not None and task.hook.point != "parallel_provider_start"
        return HookContext(
            session=self._journal.session,
            point=task.hook.point,
            state=self._journal.state,
            stage=task.name,
            iteration=task.iteration,
            provider=task.provider,
            place=at,
            result=history.result(at) if at and has_result else None,
            context="\n".join(task.notes),
            progress=self._progress(at),
            request=task.request,
            delivery=task.delivery,
            attempt=task.attempt,
        )

    def _progress(self, at: Cursor | None) -> str:
        path = self._progress_file(at)
        content, _ = files.read_part(path, -MAX_PROGRESS, MAX_PROGRESS) if path else (b"", 0)
        return content.decode("utf-8", "replace")

    def _progress_file(self, at: Cursor | None) -> str | None:
        plan, state = self._journal.plan, self._journal.state
        if plan.mode == "loop":
            return self._layout.session_progress
        if at is None:
            return None
        if at.provider is not None and state.block is not None:
            scope = f"{folder_of(plan, state.block)}/providers/{at.provider}"
            return self._layout.progress(plan.mode, "", scope)
        stage = state.node
        is_here = stage is not None and (stage.path, stage.run) == (at.node_path, at.node_run)
        return self._layout.progress(plan.mode, folder_of(plan, stage)) if stage and is_here else None
