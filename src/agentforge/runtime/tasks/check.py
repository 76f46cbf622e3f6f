"""Runs a check on the files as they are, and reads its outcome: of a command under the supervisor, or of a
rule that the engine applies.

A command is reattached to after a crash, like an agent. Its outcome counts only if the files are the same
before and after it: the tree before is in the log, not in a file that an agent could write.
"""

import asyncio
import stat
from os.path import dirname, join, lexists
from time import monotonic

import msgspec
from msgspec.structs import replace

from agentforge.engine.checks.criteria import Criteria, criteria_in
from agentforge.engine.checks.findings import MAX_CHANGED, read_criteria, read_findings, read_scope
from agentforge.engine.checks.junit import MAX_REPORT_BYTES, TOO_LARGE
from agentforge.engine.checks.outcome import ReadCheck, UnreadReport, read_check, unreadable
from agentforge.engine.checks.output import CheckReading, Hide
from agentforge.engine.checks.red import judged_red
from agentforge.engine.checks.regressions import baseline_of, only_new
from agentforge.engine.decide.stage_at import check_timeout
from agentforge.model import facts as f
from agentforge.model.check import MAX_KEPT_FAILURES, OWN_REPORT, Baseline, CheckEnd, FilesBefore, ReportStamp
from agentforge.model.errors import StorageFailed, UnusableFile
from agentforge.model.failure import Failure
from agentforge.model.task import CheckTask
from agentforge.ports.host import NoTree, TakenTree, Trees, is_tree_id
from agentforge.runtime.artifacts import StoredArtifacts
from agentforge.runtime.tasks.call import Calls, Finished, Lost, TaskContext, TaskReport
from agentforge.runtime.tasks.script import ScriptCall, ScriptPerformer
from agentforge.runtime.test_ids import keep_tests, read_tests
from agentforge.system import files
from agentforge.system.confined import ConfinedFolder
from agentforge.views.prompt import FailedCheck, check_feedback

MAX_OUTPUT = 4 * 1024 * 1024
"""Of the output that is read: its end."""
MAX_SHOWN = 10
UNKNOWN_FILES = "unknown files"
UNKNOWN_BASE = "the files at the beginning of the visit are not known; start the stage again"
WIDE = "200"
"""Columns: programs that cut their messages at the width of a terminal would give other signatures."""


class CheckPerformer(ScriptPerformer[CheckTask]):
    def __init__(self, context: TaskContext, programs: Calls, trees: Trees, stored: StoredArtifacts) -> None:
        super().__init__(context, programs)
        self._stored = stored
        self._trees = trees
        self._files = CheckFiles(context.project)

    async def perform(self, task: CheckTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:
        if task.check.run:
            return await super().perform(task, fresh=fresh, report=report)
        # Nothing was started that an earlier engine could have left.
        lost = Lost("ended on request")
        fact = self._lost(task, lost) if task.ending else await self._applied(task, report)
        self._record(task, lost, fact)
        return fact

    # -- a rule that the engine applies

    async def _applied(self, task: CheckTask, report: TaskReport) -> f.CheckCompleted:
        began = monotonic()
        prepared = await self._prepared(task, report)
        read = await asyncio.to_thread(self._findings, prepared)
        return await self._concluded(prepared, read, int((monotonic() - began) * 1000))

    def _findings(self, task: CheckTask) -> ReadCheck:
        check, hide = task.check, self._context.redactor.text
        if check.scope:
            return read_findings(self._compared(task, hide), check.expect)
        try:
            rules = self._rules(task)
        except UnusableFile as error:
            reading = CheckReading(problem="unreadable", reason=hide(error.message))
        else:
            # One file at a time: all of them may not fit into memory.
            reading = read_criteria(rules, (self._files.read(rule.path, None) for rule in rules.rules), hide)
        return read_findings(reading, check.expect)

    def _rules(self, task: CheckTask) -> Criteria:
        """What the check, or the item that it verifies, says of files."""
        if task.check.file is not None:
            return Criteria((task.check.file,))
        _, elements = self._stored.items(task.node)
        element = elements.get(task.item)
        return criteria_in(task.node, element.value if element else None)

    def _compared(self, task: CheckTask, hide: Hide) -> CheckReading:
        """What changed since the visit began, with the scope."""
        now, base = task.before, task.base
        if now.tree is None:
            return CheckReading(problem="no_tree", reason=now.problem)
        if task.baseline:
            return CheckReading()
        if base is None or not is_tree_id(base):
            return CheckReading(problem="no_tree", reason=UNKNOWN_BASE)
        changed = self._trees.changed(base, now.tree, MAX_CHANGED + 1)
        if isinstance(changed, NoTree):
            return CheckReading(problem="no_tree", reason=hide(changed.reason))
        return read_scope(task.check.scope, changed, hide)

    # -- running a command

    def _script(self, task: CheckTask) -> ScriptCall:
        sandbox = task.node.sandbox
        if sandbox is not None and task.check.network:
            sandbox = replace(sandbox, network=True)
        own = self._own_report(task)
        return ScriptCall(
            run=task.check.run,
            variables={
                "AGENTFORGE_CHECK": task.check.name,
                "COLUMNS": WIDE,
                **({OWN_REPORT: own} if own else {}),
            },
            combined=True,
            timeout=task.timeout,
            sandbox=sandbox,
            writable=(dirname(own),) if own else (),
        )

    def _own_report(self, task: CheckTask) -> str:
        """Where the command leaves its report, if it isn't a file of the project: in a folder of this run of
        the check, which it may write to."""
        if task.check.parse != "junit" or task.check.report is not None:
            return ""
        return join(f"{task.folder(self._context.layout).root}.report", "junit.xml")

    # -- the files that it checks

    async def _prepared(self, task: CheckTask, report: TaskReport) -> CheckTask:
        tree, stamp = await self._tree(), self._files.stamp(task.check.report)
        if isinstance(tree, NoTree):
            before = FilesBefore(None, stamp, self._context.redactor.text(tree.reason))
        else:
            before = FilesBefore(tree.id, stamp)
        if own := self._own_report(task):
            _make_empty(dirname(own))
        # Durable before the program starts: an agent could write a file that says what the check saw.
        report(f.CheckPrepared(**task.names, files=before))
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
        check, report = task.check, self._report(task)
        hide, project = self._context.redactor.text, self._context.project
        read = read_check(check.parse, check.expect, end, output, report, hide=hide, project=project)
        found: Baseline | None = None
        if task.baseline and not (end.timed_out and is_ended_by_run(task)):
            found = baseline_of(read)
        elif check.expect == "red":
            read = await asyncio.to_thread(self._red, task, read, output)
        elif task.found is not None:
            read = only_new(read, task.found)
        return await self._concluded(task, read, duration, output, found)

    def _report(self, task: CheckTask) -> bytes | UnreadReport | None:
        if own := self._own_report(task):
            try:
                content = files.read_bytes(own, MAX_REPORT_BYTES)
            except StorageFailed as error:
                return UnreadReport(error.message)
            return content
        return self._files.read(task.check.report, task.before.report)

    def _red(self, task: CheckTask, read: ReadCheck, output: bytes) -> ReadCheck:
        before = None
        if task.found is not None:
            try:
                known = read_tests(self._context.layout, task.found.tests) if task.found.tests else ()
            except UnusableFile as error:
                return unreadable(self._context.redactor.text(error.message))
            before = {test.id: test.status for test in known}
        return judged_red(read, task.check.red_tolerance, before, output)

    async def _concluded(
        self,
        task: CheckTask,
        read: ReadCheck,
        duration: int,
        output: bytes = b"",
        found: Baseline | None = None,
    ) -> f.CheckCompleted:
        before, check, hide = task.before, task.check, self._context.redactor.text
        folder = task.folder(self._context.layout)
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
            files.make_dir(dirname(folder.root))
            files.replace(f"{folder.root}.failures.jsonl", lines)
        tests = await asyncio.to_thread(keep_tests, self._context.layout, read.tests)
        if found is not None:
            found = replace(found, tests=tests)
        failed = FailedCheck(check.name, outcome, output)
        return f.CheckCompleted(
            **task.names,
            status=outcome.status,
            exit_code=outcome.exit_code,
            counts=outcome.counts,
            signatures=outcome.signatures,
            failures=outcome.failure_count,
            problem=outcome.problem,
            reason=outcome.reason,
            feedback="" if outcome.status == "pass" or task.baseline else hide(check_feedback(failed)),
            output=self._context.layout.relative(folder.output) if check.run else "",
            tree_before=before.tree,
            tree_after=after,
            changed=() if task.baseline else await self._changed(before.tree, after),
            tree_problem=hide(tree.reason) if isinstance(tree, NoTree) else before.problem,
            duration_ms=duration,
            found=found,
            before=outcome.before,
            tests=tests,
        )

    async def _changed(self, before: str | None, after: str | None) -> tuple[str, ...]:
        """The paths that changed meanwhile; the trees don't have the reports of checks."""
        if before is None or before == after or not is_tree_id(before):
            return ()
        if after is None:
            return (UNKNOWN_FILES,)
        found = await asyncio.to_thread(self._trees.changed, before, after, MAX_SHOWN)
        return (UNKNOWN_FILES,) if isinstance(found, NoTree) else found


def _make_empty(folder: str) -> None:
    """What is found there isn't of this run of the check."""
    files.make_dir(dirname(folder))
    if lexists(folder):
        files.move_aside(folder)
    files.make_new_dir(folder)


def is_ended_by_run(task: CheckTask) -> bool:
    """Whether its time was cut by the runtime limit of the run, which a person may extend."""
    return task.timeout is not None and task.timeout < check_timeout(task.check)


class CheckFiles:
    """The files of the project that checks are about, such as their reports. Agents can put anything in their
    place."""

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
        """None if there is no such file; of a report, also if it is the one that was there before."""
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
