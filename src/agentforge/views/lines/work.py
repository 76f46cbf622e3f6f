"""What the agents of a run did, as text: the run by stage, and one iteration."""

import shlex
from collections.abc import Iterator, Sequence

from agentforge.model.artifact import ContextUse
from agentforge.model.changes import Changes, LeftInGit
from agentforge.model.names import session_argument
from agentforge.model.result import Decision
from agentforge.model.status import status_text
from agentforge.views.lines.entries import EntryRow, RunEntry
from agentforge.views.text import cost, counted, one_line, padded, shortened, span, width
from agentforge.views.work import AttemptWork, IterationWork

MAX_FILES = 30
MAX_OUTPUT_LINES = 12
MESSAGE_CHARS = 400
LETTERS = {"added": "A", "modified": "M", "deleted": "D", "renamed": "R", "retyped": "T"}


def shown_status(work: IterationWork, run_status: str) -> str:
    """A running iteration of a run without an engine is interrupted."""
    return status_text(run_status) if work.status == "running" else work.status


def stage_title(work: IterationWork, works: Sequence[IterationWork]) -> str:
    """The stage, with what tells it from the other stages and visits of the run."""
    path = f" ({work.path})" if _is_ambiguous(work, works) else ""
    visit = f", visit {work.visit}" if work.visit > 1 else ""
    return f"{one_line(work.name)}{path}{visit}"


def show_command(
    work: IterationWork, works: Sequence[IterationWork], session: str, program: str, *options: str
) -> str:
    """The command that shows an iteration of the run."""
    same = [other.visit for other in works if other.exact_name == work.exact_name]
    visit = [] if work.visit == same[-1] else ["--visit", str(work.visit)]
    stage = work.exact_name if _is_ambiguous(work, works) else work.name
    return " ".join(
        [program, "show", *visit, *options, session_argument(session), stage, str(work.iteration)]
    )


def _is_ambiguous(work: IterationWork, works: Sequence[IterationWork]) -> bool:
    return any(other.name == work.name and other.path != work.path for other in works)


def work_line(work: IterationWork, changes: Changes | None, run_status: str, columns: int) -> RunEntry:
    """`3  1m 02s  2 files +10 -2  $0.02  what it did`, cut to the columns."""
    facts = (one_line(work.item), _seconds(work), short_changes(changes), _cost(work))
    parts = [f"{work.iteration:>3}", *(part for part in facts if part)]
    status = shown_status(work, run_status)
    error = work.attempts[-1].error if work.attempts else ""
    said = one_line(work.result.summary if work.result else error)
    asks = work.result is not None and work.result.decision is Decision.ASK
    # Without the word, `status` seems to count wrong: what asks is none of the stage's iterations.
    if status != "completed" or asks:
        how = "asked" if asks else status
        said = f"{how}: {said}" if said else how
    text = "  ".join([*parts, *([said] if said else [])])
    marks = {"completed": "done", "failed": "failed", "running": "current"}
    mark = "failed" if (status, run_status) == ("cancelled", "aborted") else marks.get(status, "stopped")
    return RunEntry(mark, shortened(text, columns))


def work_rows(work: IterationWork, changes: Changes | None, run_status: str) -> Iterator[EntryRow]:
    """The properties of an iteration that are known."""
    result = work.result
    yield EntryRow("Status", shown_status(work, run_status))
    if work.item:
        how = f": {work.item_status}" if work.item_status else ""
        reason = f": {one_line(work.item_reason, MESSAGE_CHARS)}" if work.item_reason else ""
        yield EntryRow("Item", f"{one_line(work.item)}{how}{reason}")
    if work.attempts:
        last = work.attempts[-1]
        model = f" / {last.model}" if last.model else ""
        yield EntryRow("Provider", one_line(f"{last.provider}{model}"))
    if result is not None:
        yield EntryRow("Decision", result.decision.value)
    for label, text in (("Summary", result.summary if result else ""), ("Reason", work.reason)):
        if text.strip():
            yield EntryRow(label, one_line(text))
    if judge := work.judge:
        decided = "stop" if judge.stop else "continue"
        said = decided if judge.status == "success" else judge.status
        reason = one_line(judge.error or judge.reason, MESSAGE_CHARS)
        yield EntryRow("Judge", f"{said}: {reason}" if reason else said)
    if artifact := work.artifact:
        yield EntryRow("Artifact", f"{artifact.size:,} bytes, version {one_line(artifact.version)}")
    if used := work.context:
        yield EntryRow("Context", tokens_text(used))
    if seconds := _seconds(work):
        yield EntryRow("Duration", seconds)
    spent = work.spending
    if spent.input_tokens or spent.output_tokens:
        yield EntryRow("Tokens", f"{spent.input_tokens:,} in, {spent.output_tokens:,} out")
    if money := _cost(work):
        yield EntryRow("Cost", money)
    if len(work.attempts) > 1 or any(attempt.error for attempt in work.attempts):
        tried = tuple(_attempt(attempt) for attempt in work.attempts)
        yield EntryRow("Attempts", str(len(work.attempts)), tried)
    yield from git_rows(work.git_left, work.git_omitted)
    yield changed_row(work, changes)


def tokens_text(used: ContextUse) -> str:
    """`320 of 2,000 tokens, 2 texts left out or cut`"""
    budget = f" of {used.budget:,}" if used.budget is not None else ""
    omitted = f", {counted(len(used.omitted), 'text')} left out or cut" if used.omitted else ""
    strategy = f"{used.strategy}, " if used.strategy else ""
    return f"{strategy}{used.tokens:,}{budget} tokens by estimation{omitted}"


def git_rows(left: Sequence[LeftInGit], omitted: int) -> Iterator[EntryRow]:
    """What confined programs left for git, and how to accept what was renamed."""
    if not left:
        return
    lines = [one_line(item.text, MESSAGE_CHARS) for item in left]
    moved = next((item for item in left if item.moved_to), None)
    if moved:
        paths = (shlex.quote(one_line(path, MESSAGE_CHARS)) for path in (moved.moved_to, moved.path))
        lines.append(f"to accept what was renamed, look at it, then: mv {' '.join(paths)}")
    yield EntryRow("For git", f"{counted(len(left) + omitted, 'item')} left", tuple(lines))


def changed_row(work: IterationWork, changes: Changes | None) -> EntryRow:
    if changes is None:
        reported = work.result.work.files_touched if work.result else ()
        problem = f" ({one_line(work.tree_problem, MESSAGE_CHARS)})" if work.tree_problem else ""
        if reported:
            names = one_line(", ".join(reported), MESSAGE_CHARS)
            return EntryRow("Changed", f"as reported by the agent: {names}")
        if work.awaits_changes:
            return EntryRow("Changed", "available when the iteration ends")
        return EntryRow("Changed", f"not recorded{problem}")
    notes = ["also by other branches at the same time"] if work.changed_by_others else []
    notes += [f"{counted(work.omitted, 'large file')} left out"] if work.omitted else []
    note = f" ({', '.join(notes)})" if notes else ""
    return EntryRow("Changed", f"{changes_text(changes)}{note}", tuple(file_lines(changes)))


def changes_text(changes: Changes) -> str:
    if not changes.files:
        return "nothing"
    return f"{counted(len(changes.files), 'file')}, +{changes.added:,} -{changes.removed:,} lines"


def short_changes(changes: Changes | None) -> str:
    if changes is None or not changes.files:
        return ""
    return f"{counted(len(changes.files), 'file')} +{changes.added:,} -{changes.removed:,}"


def file_lines(changes: Changes, most: int = MAX_FILES) -> Iterator[str]:
    """`M src/a.py  +3 -1`, aligned."""
    shown = changes.files[:most]
    names = [one_line(file.path, MESSAGE_CHARS) for file in shown]
    for number, file in enumerate(shown):
        if file.old_path:
            names[number] = f"{one_line(file.old_path, MESSAGE_CHARS)} → {names[number]}"
    columns = min(60, max((width(name) for name in names), default=0))
    for file, name in zip(shown, names, strict=True):
        counts = (("+", file.added), ("-", file.removed))
        lines = " ".join(f"{sign}{number:,}" for sign, number in counts if number)
        if file.added is None or file.removed is None:
            lines = "binary"
        yield f"{LETTERS[file.kind]} {padded(name, columns)}  {lines}".rstrip()
    if len(changes.files) > most:
        yield f"and {len(changes.files) - most:,} more"


def output_lines(output: str | None) -> Iterator[str]:
    """The end of the output."""
    lines = [line for line in (output or "").splitlines() if line.strip()]
    if len(lines) > MAX_OUTPUT_LINES:
        yield f"… {len(lines) - MAX_OUTPUT_LINES:,} lines before"
    yield from (one_line(line, MESSAGE_CHARS) for line in lines[-MAX_OUTPUT_LINES:])


def _seconds(work: IterationWork) -> str:
    if work.duration_seconds is not None:
        return span(work.duration_seconds)
    return span((work.ended_at - work.started_at).total_seconds()) if work.ended_at else ""


def _cost(work: IterationWork) -> str:
    return cost(work.spending.cost_usd, work.spending.unpriced)


def _attempt(attempt: AttemptWork) -> str:
    seconds = (attempt.ended_at - attempt.started_at).total_seconds() if attempt.ended_at else None
    took = "" if seconds is None else f" after {span(seconds)}"
    error = f": {one_line(attempt.error, MESSAGE_CHARS)}" if attempt.error else ""
    return f"{attempt.number} {one_line(attempt.provider)} {attempt.status}{took}{error}"


def stages_of(works: Sequence[IterationWork]) -> list[list[IterationWork]]:
    """The iterations by visit of a stage, in the order in which these began."""
    found: dict[tuple[str, str | None, int], list[IterationWork]] = {}
    for work in works:
        found.setdefault((work.path, work.branch, work.visit), []).append(work)
    return list(found.values())
