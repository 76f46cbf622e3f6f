"""Runs a check under the supervisor, on the files as they are, and reads its outcome.

A check is reattached to after a crash, like an agent. Its outcome counts only if the files are the same
before and after it: the tree before is in the log, not in a file that an agent could write.
"""

import asyncio
import stat

import msgspec
from msgspec.structs import replace

from agentforge.engine.checks.junit import MAX_REPORT_BYTES, TOO_LARGE
from agentforge.engine.checks.outcome import UnreadReport, read_check
from agentforge.model import facts as f
from agentforge.model.check import MAX_KEPT_FAILURES, CheckEnd, FilesBefore, ReportStamp
from agentforge.model.failure import Failure
from agentforge.model.task import CheckTask
from agentforge.ports.host import NoTree, TakenTree, Trees, is_tree_id
from agentforge.runtime.tasks.call import Calls, Finished, TaskContext, TaskReport
from agentforge.runtime.tasks.script import ScriptCall, ScriptPerformer
from agentforge.system import files
from agentforge.system.confined import ConfinedFolder
from agentforge.views.prompt import FailedCheck, check_feedback

MAX_OUTPUT = 4 * 1024 * 1024
"""Of the output that is read: its end."""
MAX_CHANGED = 10
UNKNOWN_FILES = "unknown files"
WIDE = "200"
"""Columns: programs that cut their messages at the width of a terminal would give other signatures."""


class CheckPerformer(ScriptPerformer[CheckTask]):
    def __init__(self, context: TaskContext, programs: Calls, trees: Trees) -> None:
        super().__init__(context, programs)
        self._trees = trees
        self._reports = CheckReports(context.project)

    # -- running it

    def _script(self, task: CheckTask) -> ScriptCall:
        sandbox = task.node.sandbox
        if sandbox is not None and task.check.network:
            sandbox = replace(sandbox, network=True)
        return ScriptCall(
            run=task.check.run,
            variables={"AGENTFORGE_CHECK": task.check.name, "COLUMNS": WIDE},
            combined=True,
            timeout=task.timeout,
            sandbox=sandbox,
        )

    # -- the files that it checks

    async def _prepared(self, task: CheckTask, report: TaskReport) -> CheckTask:
        tree, stamp = await self._tree(), self._reports.stamp(task.check.report)
        if isinstance(tree, NoTree):
            before = FilesBefore(None, stamp, self._context.redactor.text(tree.reason))
        else:
            before = FilesBefore(tree.id, stamp)
        # Durable before the program starts: an agent could write a file that says what the check saw.
        report(f.CheckPrepared(task.check.name, task.attempt, before))
        return replace(task, before=before)

    async def _tree(self) -> TakenTree | NoTree:
        if not self._trees.is_possible():
            return NoTree("the project is not a folder")
        return await asyncio.to_thread(self._trees.take)

    # -- the outcome

    async def _not_started(self, task: CheckTask, failure: Failure) -> f.CheckCompleted:
        return await self._completed(task, CheckEnd(not_started=failure.message), b"", 0)

    async def _finished(self, task: CheckTask, ended: Finished) -> f.CheckCompleted:
        result, record = ended.result, ended.record
        # Output beyond its limit is cut without an error; its end is kept.
        lost = record.error if record is not None and record.output_truncated else None
        code = result.exit_code if result.exit_code >= 0 else None
        end = CheckEnd(code, output_lost=lost or "")
        if record is not None and record.status == "timeout":
            end = CheckEnd(timed_out=True)
        elif record is not None and record.status == "spawn_failed":
            end = CheckEnd(not_started=record.error or "unknown reason")
        output, _ = files.read_part(task.folder(self._context.layout).output, -MAX_OUTPUT, MAX_OUTPUT)
        return await self._completed(task, end, output, result.duration_ms)

    async def _completed(
        self, task: CheckTask, end: CheckEnd, output: bytes, duration: int
    ) -> f.CheckCompleted:
        before, check = task.before, task.check
        hide, report = self._context.redactor.text, self._reports.read(check.report, before.report)
        read = read_check(check.parse, check.expect, end, output, report, hide=hide)
        tree = await self._tree()
        after = None if isinstance(tree, NoTree) else tree.id
        if after is not None:
            visit = f"{task.place.path}-{task.place.run}-{task.iteration}"
            name = f"{self._context.run_id}/{visit}-{check.name}"
            await asyncio.to_thread(self._trees.keep, after, name)
        outcome = read.outcome
        if len(read.failures) > MAX_KEPT_FAILURES:
            # All of them, for people: the outcome has only the first ones.
            lines = msgspec.json.Encoder().encode_lines(read.failures)
            files.replace(f"{task.folder(self._context.layout).root}.failures.jsonl", lines)
        failed = FailedCheck(check.name, outcome, output)
        return f.CheckCompleted(
            check.name,
            task.attempt,
            outcome.status,
            exit_code=outcome.exit_code,
            counts=outcome.counts,
            signatures=outcome.signatures,
            failures=outcome.failure_count,
            problem=outcome.problem,
            reason=outcome.reason,
            feedback="" if outcome.status == "pass" else hide(check_feedback(failed)),
            output=self._context.layout.relative(task.folder(self._context.layout).output),
            tree_before=before.tree,
            tree_after=after,
            changed=await self._changed(before.tree, after),
            tree_problem=hide(tree.reason) if isinstance(tree, NoTree) else before.problem,
            duration_ms=duration,
        )

    async def _changed(self, before: str | None, after: str | None) -> tuple[str, ...]:
        """The paths that changed meanwhile; the trees don't have the reports of checks."""
        if before is None or before == after or not is_tree_id(before):
            return ()
        if after is None:
            return (UNKNOWN_FILES,)
        found = await asyncio.to_thread(self._trees.changed, before, after, MAX_CHANGED)
        return (UNKNOWN_FILES,) if isinstance(found, NoTree) else found


class CheckReports:
    """The reports that checks write into the project. Agents can put anything in their place."""

    def __init__(self, project: str) -> None:
        self._project = project

    def stamp(self, path: str | None) -> ReportStamp | None:
        """None if there is no regular file."""
        if path is None:
            return None
        try:
            with ConfinedFolder(self._project) as folder:
                about = folder.stat(path)
        except OSError:
            return None
        if about is None or not stat.S_ISREG(about.st_mode):
            return None
        return about.st_ino, about.st_mtime_ns, about.st_size

    def read(self, path: str | None, before: ReportStamp | None) -> bytes | UnreadReport | None:
        """What the check wrote; None if it wrote nothing: there is no report, or the one that was there."""
        if path is None or (before is not None and self.stamp(path) == before):
            return None
        try:
            with ConfinedFolder(self._project) as folder:
                content, size = folder.read(path, MAX_REPORT_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = error.strerror or str(error)  # `is a folder`, `Permission denied`
            return UnreadReport(f"it {reason}" if reason.startswith("is ") else reason)
        return UnreadReport(TOO_LARGE) if size > MAX_REPORT_BYTES else content
