"""What an iteration is told of the run, by context strategy: the parts of `${BRIEFING}`.

- `full`: what was said in the run, the input artifact, and the latest outputs of all stages
- `focused`: the item, those that it depends on, what was done about it before, the feedback on it
- `minimal`: the output of the stage before, what that had to do, and its checks
- `summary`: the items, visits, verdicts, checks and changes of the whole run

The record of the run has nearly all of it. What is only in files, the caller reads: `BriefingFiles`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from agentforge.engine.items import id_of
from agentforge.model.artifact import ItemAt, Strategy
from agentforge.model.plan import Items
from agentforge.model.request import Feedback
from agentforge.model.result import JSONObject
from agentforge.views.lines.entries import check_outcome
from agentforge.views.record import RunRecord, Said
from agentforge.views.structured_work import is_listed, title_of
from agentforge.views.text import counted, one_line
from agentforge.views.token_budget import Part
from agentforge.views.visits import StageVisit
from agentforge.views.work import IterationWork

RECENT: Final = 5
"""How many of its own iterations a stage is told about, the latest first."""
MAX_VISITS: Final = 200
"""How many visits a summary has, the latest first."""
NAME_CHARS: Final = 100
REASON_CHARS: Final = 1_000

COVERED: Final[Mapping[Strategy, frozenset[str]]] = {
    "full": frozenset({"ITEM", "FEEDBACK", "ANSWERS"}),
    "focused": frozenset({"ITEM", "FEEDBACK"}),
    "minimal": frozenset({"ITEM"}),
    "summary": frozenset({"ITEM"}),
}
"""The variables whose content is part of the briefing."""
TELLS_REQUEST: Final[frozenset[Strategy]] = frozenset({"full", "summary"})
_ALWAYS: Final = 0
"""The rank of what is never left out."""


class BriefingAt(Struct, frozen=True, kw_only=True):
    """The iteration that is about to start."""

    path: str
    branch: str | None = None
    request: str = ""
    """What the user wants; empty: the pipeline takes no request."""
    feedback: Feedback | None = None
    input: JSONObject | None = None
    """The artifacts of earlier stages, merged."""
    item: ItemAt | None = None
    element: Any = None
    """What the artifact says about the item."""
    needed: Mapping[str, Any] = field(default_factory=dict)
    """By id: what it says about the items that this one depends on."""


class BriefingFiles(Struct, frozen=True):
    """How to get what the record lacks; empty: it is missing or unreadable."""

    output: Callable[[str], str]
    """By its path, as the log has it."""
    changed: Callable[[str, str], Sequence[str]]
    """The files that differ between two trees."""
    patch: Callable[[str, str], str] = lambda _before, _after: ""
    """What differs between them."""


def briefing_parts(
    strategy: Strategy, record: RunRecord, at: BriefingAt, files: BriefingFiles
) -> tuple[Part, ...]:
    """In the order in which they are read. Their ranks say which are left out first: the highest."""
    works = _works(strategy, record, at)
    request = [Part("request of the user", at.request, _ALWAYS)] if at.request else []
    name = f"item {at.item.id} ({at.item.number} of {at.item.of})" if at.item else ""
    item = [_json(name, at.element, _ALWAYS)] if name else []
    match strategy:
        case "full":
            return (
                *request,
                *_said(record, at, rank=1),
                *item,
                *_input(at, rank=2),
                *_outputs(works, files, rank=3),
            )
        case "focused":
            return (
                *item,
                *_needed(at, rank=2),
                *_outputs(works, files, rank=3),
                *_feedback(at, rank=1),
            )
        case "minimal":
            return (
                *item,
                *_criteria(record, at, works, rank=1),
                *_checks(record, works, rank=2),
                *_artifacts(works, rank=3),
                *_outputs(works, files, rank=4),
            )
        case "summary":  # exhaustive
            return (
                *request,
                *item,
                *_items(record, at, rank=1),
                *_history(record, at, files, rank=2, files_rank=3),
                *_change(record, at, files, rank=4),
            )


# -- which outputs


def _works(strategy: Strategy, record: RunRecord, at: BriefingAt) -> list[IterationWork]:
    """The latest first."""
    match strategy:
        case "full":
            recent = islice(_done(record, at, is_own=True), RECENT)
            others = _latest_of_each(_done(record, at, is_own=False))
            return [work for _, work in sorted([*recent, *others], key=itemgetter(0))]
        case "focused":
            item = at.item.id if at.item else ""
            return [work for _, work in islice(_done(record, at, is_own=True, item=item), RECENT)]
        case "minimal":
            latest = [work for _, work in _latest_of_each(_done(record, at, is_own=False))]
            before = [work for work in latest if work.key == latest[0].key]
            return [work for work in before if at.item and work.item == at.item.id] or before
        case "summary":  # exhaustive
            return []


_Aged = tuple[int, IterationWork]


def _done(record: RunRecord, at: BriefingAt, *, is_own: bool, item: str = "") -> Iterator[_Aged]:
    """What the stage completed, or what others did; of an item, if one is given. The latest first."""
    # Of many iterations, few are: what tells most of them apart comes first.
    for age, work in enumerate(reversed(record.iterations)):
        if (
            (work.path == at.path and work.branch == at.branch) is is_own
            and item in ("", work.item)
            and work.status == "completed"
            and _is_known(work.branch, at)
            and is_listed(work, record)
        ):
            yield age, work


def _is_known(branch: str | None, at: BriefingAt) -> bool:
    """A branch doesn't know what the others do; what comes after the block knows all of them."""
    return branch is None or at.branch in (None, branch)


def _latest_of_each(works: Iterable[_Aged]) -> list[_Aged]:
    """Of each stage, or of each item of a stage over items."""
    found: dict[tuple[str, str], _Aged] = {}
    for age, work in works:
        found.setdefault((work.key, work.item), (age, work))
    return list(found.values())


# -- parts


def _input(at: BriefingAt, rank: int) -> Iterator[Part]:
    if at.input is not None:
        yield _json("input artifact", at.input, rank)


def _feedback(at: BriefingAt, rank: int) -> Iterator[Part]:
    if at.feedback is not None:
        yield Part(_name(f"feedback by {at.feedback.by}"), at.feedback.text, rank, keep="head")


def _said(record: RunRecord, at: BriefingAt, rank: int) -> Iterator[Part]:
    said = [one for one in record.said if _is_known(one.branch, at)]
    for number, one in enumerate(said):
        yield Part(_said_name(one), one.text, rank, len(said) - number, "head")
    # What the checks of this visit say is only in the state.
    if at.feedback is not None and at.feedback.text not in {one.text for one in said}:
        yield from _feedback(at, rank)


def _said_name(one: Said) -> str:
    match one.kind:
        case "question":
            return _name(f"question of {one.by}")
        case "feedback":
            return _name(f"feedback by {one.by} for {one.stage}")
        case "answer" | "note":  # exhaustive
            return _name(f"{one.kind} by {one.by}")


def _needed(at: BriefingAt, rank: int) -> Iterator[Part]:
    for number, (id, value) in enumerate(at.needed.items()):
        yield _json(f"item {id}, which it depends on", value, rank, number)


def _outputs(works: Sequence[IterationWork], files: BriefingFiles, rank: int) -> Iterator[Part]:
    """In the order in which they were written: the last one is the latest."""
    for age, work in reversed(list(enumerate(works))):
        path = f"{work.folder}/output.md" if work.folder else ""
        text = work.text if work.text is not None else files.output(path) if path else ""
        if text.strip():
            # What an agent concludes is at the end.
            yield Part(f"output of {_place(work)}", text, rank, age, "tail")


def _artifacts(works: Sequence[IterationWork], rank: int) -> Iterator[Part]:
    for age, work in reversed(list(enumerate(works))):
        if work.artifact is not None and work.artifact.value is not None:
            yield _json(f"artifact of {_place(work)}", work.artifact.value, rank, age)


def _criteria(record: RunRecord, at: BriefingAt, works: Sequence[IterationWork], rank: int) -> Iterator[Part]:
    """What the stage before had to do: its items, else what it was given."""
    if at.item is not None:
        return
    items = _elements(record, at, works[0].path, works[0].branch) if works else {}
    found = [(work.item, items[work.item]) for work in reversed(works) if work.item in items]
    for id, value in found:
        yield _json(f"item {id}", value, rank)
    if not found:
        yield from _input(at, rank)


def _checks(record: RunRecord, works: Sequence[IterationWork], rank: int) -> Iterator[Part]:
    places = [(work.path, work.branch) for work in works[:1]]
    visits = (visit for visit in reversed(record.visits) if (visit.path, visit.branch) in places)
    visit = next(visits, None)
    if visit is not None and visit.checks:
        lines = (line for run in visit.latest_checks for line in (check_outcome(run), *run.signatures))
        yield Part(f"checks of {_stage(visit)}", "\n".join(lines), rank, keep="head")


def _items(record: RunRecord, at: BriefingAt, rank: int) -> Iterator[Part]:
    """The items of each stage, with what became of them."""
    plan, state = record.model.plan, record.model.state
    for key, items in state.items.items() if state else ():
        path, _, branch = key.partition("@")
        if not _is_known(branch or None, at):
            continue
        node = plan.stage(path, branch or None) if plan else None
        elements = _elements(record, at, path, branch or None)
        titled = ((item, title_of(elements.get(item.id))) for item in items.values())
        lines = (f"{item.id} {item.status}{title and f': {title}'}" for item, title in titled)
        yield Part(_name(f"items of {node.id if node else path}"), "\n".join(lines), rank, keep="head")


def _elements(record: RunRecord, at: BriefingAt, path: str, branch: str | None) -> dict[str, Any]:
    """By id, what the input artifact says about the items of a stage."""
    node = record.model.plan.stage(path, branch) if record.model.plan else None
    if node is None or not isinstance(node.termination, Items) or at.input is None:
        return {}
    listed = at.input.get(node.termination.field)
    return {id_of(one): one for one in listed} if isinstance(listed, list) else {}


# -- the history of a run

_Visit = tuple[str, str | None, int]


def _visit_key(one: StageVisit | IterationWork) -> _Visit:
    return one.path, one.branch, one.visit


def _history(
    record: RunRecord, at: BriefingAt, files: BriefingFiles, *, rank: int, files_rank: int
) -> Iterator[Part]:
    by_visit: dict[_Visit, list[IterationWork]] = {}
    for work in record.iterations:
        by_visit.setdefault(_visit_key(work), []).append(work)
    latest = [visit for visit in reversed(record.visits) if _is_known(visit.branch, at)][:MAX_VISITS]
    for age, visit in reversed(list(enumerate(latest))):
        works = by_visit.get(_visit_key(visit), [])
        yield Part(_stage(visit), "\n".join(_visit_lines(visit, works)), rank, age, "head")
        changed = files.changed(*trees) if (trees := _trees(works)) else _reported(works)
        if changed:
            name = f"files changed by {_stage(visit)}"
            yield Part(name, "\n".join(map(one_line, changed)), files_rank, age, "head")


def _change(record: RunRecord, at: BriefingAt, files: BriefingFiles, rank: int) -> Iterator[Part]:
    known = [work for work in record.iterations if _is_known(work.branch, at)]
    if (trees := _trees(known)) and (patch := files.patch(*trees)):
        yield Part("change since the run began", patch, rank, keep="head")


def _visit_lines(visit: StageVisit, works: Sequence[IterationWork]) -> Iterator[str]:
    yield f"{counted(visit.iterations, 'iteration')}: {'completed' if visit.ended_at else 'not completed'}"
    if visit.verdict:
        accepted = f", accepted by {one_line(visit.accepted_by, NAME_CHARS)}" if visit.accepted_by else ""
        reason = f": {one_line(visit.reason, REASON_CHARS)}" if visit.reason else ""
        yield f"verdict {one_line(visit.verdict)}{accepted}{reason}"
    for run in visit.latest_checks:
        yield f"check {check_outcome(run)}"
    for work in works:
        if work.result is not None and (said := one_line(work.result.summary, REASON_CHARS)):
            yield f"iteration {work.iteration}{f', item {work.item}' if work.item else ''}: {said}"
    if visit.to:
        yield f"then {'back to' if visit.cycle else 'on to'} {one_line(visit.to)}"


def _trees(works: Sequence[IterationWork]) -> tuple[str, str] | None:
    """Before and after."""
    before = next((work.tree_before for work in works if work.tree_before), None)
    after = next((work.tree_after for work in reversed(works) if work.tree_after), None)
    return (before, after) if before and after else None


def _reported(works: Sequence[IterationWork]) -> list[str]:
    """Which files the agents named, where no trees are recorded."""
    named = (path for work in works if work.result for path in work.result.work.files_touched)
    return list(dict.fromkeys(named))


# -- names


def _place(work: IterationWork) -> str:
    """`build, visit 2, iteration 3, item s1`"""
    item = f", item {work.item}" if work.item else ""
    return f"{_stage(work)}, iteration {work.iteration}{item}"


def _stage(one: IterationWork | StageVisit) -> str:
    branch = f"@{one.branch}" if one.branch else ""
    visit = f", visit {one.visit}" if one.visit > 1 else ""
    return f"{_name(one.stage + branch)}{visit}"


def _name(text: str) -> str:
    return one_line(text, NAME_CHARS)


def _json(name: str, value: Any, rank: int, age: int = 0) -> Part:
    return Part(_name(name), msgspec.json.encode(value).decode(), rank, age)
