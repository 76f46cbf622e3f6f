"""What the engine established about a change, as text: for `show --evidence` and for a pull request."""

from collections.abc import Iterator, Sequence

from agentforge.views.evidence import Evidence, SeenCheck
from agentforge.views.lines.checks import CHECK_ENDS, counts_text, tree_text, waiver_text
from agentforge.views.lines.deliver import delivered_text
from agentforge.views.lines.entries import EntryRow, RunEntry
from agentforge.views.text import counted, one_line

MAX_IDS = 10
"""Ids of tests that are shown of each check; the JSON has all."""
TEXT_CHARS = 400


def evidence_entries(found: Evidence, differs: Sequence[str] = ()) -> Iterator[RunEntry]:
    """`differs`: how the repository differs from it now."""
    for one in found.red:
        yield _check(one, "Red")
    for one in found.green:
        yield _check(one, "Green")
    for stage in found.accepted:
        yield RunEntry("warning", f"Accepted by a person despite its verdict: {one_line(stage)}")
    for waiver in found.waivers:
        yield RunEntry("warning", f"Waived: {waiver_text(waiver)}")
    if work := found.delivered:
        rows = [EntryRow("Commit", work.commit)] if work.commit else []
        rows += [EntryRow("Tree", work.tree)] if work.tree else []
        yield RunEntry("done", f"Delivered: {delivered_text(work)}", tuple(rows))
    for sentence in found.not_established:
        yield RunEntry("note", f"Not established: {one_line(sentence, TEXT_CHARS)}")
    for text in differs:
        yield RunEntry("failed", f"Differs now: {one_line(text, TEXT_CHARS)}")


def _check(one: SeenCheck, title: str) -> RunEntry:
    must = ", which must fail," if one.must_fail else ""
    what = f"{title}: check {one_line(one.check)} of {one_line(one.stage)}{must}"
    counts = counts_text(one.counts)
    ended = CHECK_ENDS.get(one.status, one.status)
    if one.must_fail and one.is_met:
        ended = "failed"
    before = f" ({one.before:,} failed before too)" if one.before else ""
    mark = "done" if one.is_met else "failed"
    return RunEntry(mark, f"{what} {ended}{f': {counts}' if counts else ''}{before}", tuple(_rows(one)))


def _rows(one: SeenCheck) -> Iterator[EntryRow]:
    if not one.is_met and one.reason:
        yield EntryRow("Reason", one_line(one.reason, TEXT_CHARS))
    yield EntryRow("Tree", tree_text(one.tree) if one.tree else "unknown")
    named = {"Failed": one.failed, "Passed": one.passed, "Skipped": one.skipped}
    for label, ids in named.items():
        if ids:
            more = f" and {counted(len(ids) - MAX_IDS, 'other')}" if len(ids) > MAX_IDS else ""
            yield EntryRow(label, f"{', '.join(map(one_line, ids[:MAX_IDS]))}{more}")
    if one.problem:
        yield EntryRow("Ids", one_line(one.problem, TEXT_CHARS))


def evidence_text(found: Evidence) -> list[str]:
    """The lines of a pull request's body, in Markdown."""
    lines = ["## Evidence", ""]
    for entry in evidence_entries(found):
        lines.append(f"- {entry.title}")
        lines += [f"  - {row.label}: {row.value}" for row in entry.rows]
    return lines
