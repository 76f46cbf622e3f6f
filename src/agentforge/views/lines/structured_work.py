"""Artifacts, items and contexts of a run as text, for `show`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentforge.model.artifact import ContextUse, OmittedPart, is_of_engine
from agentforge.model.status import status_text
from agentforge.views.lines.entries import TEXT_CHARS, EntryRow, RunEntry, Shown
from agentforge.views.lines.work import tokens_text
from agentforge.views.structured_work import ArtifactWork, ItemWork, ItemWorkStatus
from agentforge.views.text import counted, one_line, shortened
from agentforge.views.token_budget import Part, parts_in, tokens_of
from agentforge.views.work import IterationWork

MAX_VALUE_LINES = 20
VALUE_CHARS = 160
MAX_ITERATIONS = 10
ITEM_MARKS: Mapping[ItemWorkStatus, str] = {
    "pending": "waiting",
    "running": "current",
    "done": "done",
    "failed": "failed",
    "blocked": "stopped",
    "dropped": "skipped",
}
ITEM_WORDS: Mapping[ItemWorkStatus, str] = {"pending": "to do", "running": "under way"}
"""Where people are shown another word."""


def artifact_entry(one: ArtifactWork, shown: Shown) -> RunEntry:
    place = "given to the run"
    if one.stage:
        item = f", item {one_line(one.item)}" if one.item else ""
        place = f"{_stage(one)}, visit {one.visit}, iteration {one.iteration}{item}"
    title = f"{place}: {one.size:,} bytes, version {one_line(one.version)}"
    return RunEntry("failed" if one.problem else "done", title, tuple(_artifact_rows(one, shown)))


def _artifact_rows(one: ArtifactWork, shown: Shown) -> Iterator[EntryRow]:
    yield EntryRow("File", one_line(f"{shown.run_dir}/{one.file}"))
    if one.value is None:
        yield EntryRow("SHA-256", one.sha256)
        yield EntryRow("Problem", one_line(one.problem))
        return
    lines = msgspec.json.format(msgspec.json.encode(one.value), indent=2).decode().split("\n")
    cut = [shortened(line[: 4 * VALUE_CHARS], VALUE_CHARS) for line in lines[:MAX_VALUE_LINES]]
    if more := len(lines) - len(cut):
        cut.append(f"… {counted(more, 'more line')}: see --json, or -o FILE")
    yield EntryRow("SHA-256", one.sha256, tuple(cut))
    for field, value in one.added.items():
        if not is_of_engine(field):
            yield EntryRow("Added", one_line(f"{field}: {value}", TEXT_CHARS))


def item_entry(one: ItemWork, shown: Shown) -> RunEntry:
    title = f" ({one.title})" if one.title else " (repair)" if one.repair else ""
    step = f", step {one.number} of {one.of}" if one.number else ""
    status = ITEM_WORDS.get(one.status, one.status)
    if one.status == "running":
        status = status_text(shown.status)  # An item of a run without an engine is interrupted.
    when = " in" if one.status in ("running", "done", "failed") else ", after"
    done = f"{when} {_iterations(one)}" if one.iterations else ""
    words = f"{_stage(one)}{step}, {one_line(one.id)}{title}: {status}{done}"
    return RunEntry(ITEM_MARKS[one.status], words, tuple(_item_rows(one)))


def _item_rows(one: ItemWork) -> Iterator[EntryRow]:
    if one.after and one.status in ("pending", "blocked"):
        yield EntryRow("After", ", ".join(map(one_line, one.after)))
    if one.reason:
        yield EntryRow("Reason", one_line(one.reason, TEXT_CHARS))


def _iterations(one: ItemWork) -> str:
    """`iteration 2, 3; visit 2: 1`"""
    latest = one.iterations[-MAX_ITERATIONS:]
    parts = []
    for visit in dict.fromkeys(each.visit for each in latest):
        numbers = ", ".join(str(each.iteration) for each in latest if each.visit == visit)
        parts.append(f"{f'visit {visit}, ' if visit > 1 else ''}iteration {numbers}")
    return "; ".join(parts)


def _stage(one: ArtifactWork | ItemWork) -> str:
    return f"{one_line(one.stage)}{f' ({one_line(one.branch)})' if one.branch else ''}"


def items_text(found: Sequence[ItemWork]) -> str:
    """`3 items: 1 done, 2 to do`"""
    counts = Counter(ITEM_WORDS.get(one.status, one.status) for one in found)
    numbers = ", ".join(f"{number:,} {status}" for status, number in counts.items())
    return f"{counted(len(found), 'item')}: {numbers}" if found else "no items"


def context_rows(work: IterationWork, prompt: str) -> Iterator[EntryRow]:
    """How much an iteration was given, and what of it is quoted data, if it has left its prompt."""
    parts = list(parts_in(prompt))
    use = work.context or ContextUse(None, tokens_of(prompt))
    yield EntryRow("Context", tokens_text(use))
    if work.spending.input_tokens:
        yield EntryRow(
            "Counted", f"{work.spending.input_tokens:,} tokens by the provider, all calls together"
        )
    if prompt:
        rest = max(0, use.tokens - sum(part.tokens for part in parts))
        lines = [*(_part(part.name, part.tokens) for part in parts), _part("the rest of what is sent", rest)]
        yield EntryRow("Parts", counted(len(parts), "quoted text"), tuple(lines))
    if use.omitted:
        yield EntryRow("Left out", counted(len(use.omitted), "text"), tuple(map(_omitted, use.omitted)))


def _omitted(part: OmittedPart) -> str:
    return f"{_part(part.name, part.tokens)}{f', {part.kept:,} of them kept' if part.kept else ''}"


def _part(name: str, tokens: int) -> str:
    return f"{tokens:>7,}  {one_line(name)}"


def context_parts(prompt: str) -> list[dict[str, Any]]:
    """What a prompt quotes, for JSON."""
    return [{"name": part.name, "tokens": part.tokens, "text": part.text} for part in parts_in(prompt)]


def part_head(part: Part) -> str:
    return f"{one_line(part.name)}, {counted(part.tokens, 'token')}:"
