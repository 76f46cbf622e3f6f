"""The artifacts of a run and the items of its stages, for people and programs that look: selections of the
record."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from agentforge.engine.items import elements_of
from agentforge.model.artifact import Artifact, PlannedItem
from agentforge.model.errors import UnusableFile
from agentforge.model.plan import Items, StageNode
from agentforge.model.result import JSONObject
from agentforge.views.artifacts import ReadArtifact, RunKeys, run_keys
from agentforge.views.history import History
from agentforge.views.record import RunRecord
from agentforge.views.text import one_line
from agentforge.views.work import IterationWork

TITLE_CHARS = 200
_TITLES = ("title", "name", "description")
ItemWorkStatus = Literal["pending", "running", "done", "failed", "blocked", "dropped"]


class ArtifactWork(Struct, frozen=True):
    """One that was accepted, and where it is from."""

    stage: str
    """Empty: the run was started with it."""
    path: str
    branch: str | None
    visit: int
    iteration: int
    item: str
    """The id of the item that it is about."""
    version: str
    size: int
    sha256: str
    file: str
    """Relative to the run directory; the run may have no such file if it is small."""
    value: JSONObject | None
    """None: it is in its file only, and that can't be used."""
    problem: str = ""
    """Why its file can't be used."""
    added: JSONObject = {}
    """What the engine adds to it for later stages."""

    @property
    def name(self) -> str:
        """The stage as it is named on the command line."""
        return f"{self.stage}@{self.branch}" if self.branch else self.stage


class ItemIteration(Struct, frozen=True):
    visit: int
    iteration: int


class ItemWork(Struct, frozen=True):
    """An item of a stage, and what became of it."""

    stage: str
    path: str
    branch: str | None
    id: str
    number: int
    """Its position among the items that the stage has now, from 1; 0 of one that the list no longer has."""
    of: int
    status: ItemWorkStatus
    """`blocked`: it depends on one that failed. `dropped`: the list no longer has it."""
    title: str = ""
    after: tuple[str, ...] = ()
    repair: bool = False
    """Whether the list lacks it: it is about the feedback that the visit began with."""
    reason: str = ""
    """Why it failed."""
    iterations: tuple[ItemIteration, ...] = ()

    @property
    def visit(self) -> int | None:
        """The latest one that worked on it."""
        return self.iterations[-1].visit if self.iterations else None


def artifacts_of(record: RunRecord, read: ReadArtifact, *, latest: bool = False) -> list[ArtifactWork]:
    """In the order in which they were accepted. `latest`: only those that later stages get, one of each stage
    or item. `read` may raise UnusableFile."""
    works = [work for work in record.iterations if work.artifact is not None]
    if latest:
        works = list({(work.key, work.item): work for work in works if is_listed(work, record)}.values())
    initial = record.model.history.initial
    keys = _keys(record)
    found = [_artifact(None, initial, read, keys.values)] if initial else []
    return found + [
        _artifact(work, work.artifact, read, _added(work, record, keys)) for work in works if work.artifact
    ]


def _keys(record: RunRecord) -> RunKeys:
    state = record.model.state
    if state is None:
        return RunKeys("")
    return run_keys(state.started_at, state.run_id, state.user_request)


def _added(work: IterationWork, record: RunRecord, keys: RunKeys) -> JSONObject:
    node = record.model.plan.stage(work.path, work.branch) if record.model.plan and not work.item else None
    return {**(keys.filled(node.artifact, node.id, work.branch) if node else {}), **keys.values}


def is_listed(work: IterationWork, record: RunRecord) -> bool:
    """Whether its item, if it is about one, is still in the list."""
    state = record.model.state
    return not work.item or state is None or work.item in state.items.get(work.key, {})


def _artifact(
    work: IterationWork | None, one: Artifact, read: ReadArtifact, added: JSONObject
) -> ArtifactWork:
    value, problem = None, ""
    try:
        value = read(one)
    except UnusableFile as error:
        problem = error.message
    return ArtifactWork(
        stage=work.stage if work else "",
        path=work.path if work else "",
        branch=work.branch if work else None,
        visit=work.visit if work else 0,
        iteration=work.iteration if work else 0,
        problem=problem,
        added=added,
        **{**asdict(one), "value": value},
    )


def items_of(record: RunRecord, read: ReadArtifact) -> list[ItemWork]:
    """Of all stages over items, in the order in which they are worked through; dropped ones that were worked
    on come last. Without titles if `read` raises UnusableFile."""
    plan, state = record.model.plan, record.model.state
    works: dict[str, dict[str, list[IterationWork]]] = {}
    for work in record.iterations:
        if work.item:
            works.setdefault(work.key, {}).setdefault(work.item, []).append(work)
    found: list[ItemWork] = []
    for key, items in state.items.items() if state else ():
        path, _, provider = key.partition("@")
        branch, done = provider or None, works.get(key, {})
        node, at = plan.stage(path, branch) if plan else None, state.stage(branch) if state else None
        titles = item_titles(node, record.model.history, read) if node else {}
        current = at.item_id if at and at.path == path else ""
        place = ItemWork(node.id if node else path, path, branch, "", 0, 0, "dropped")
        found += _listed(place, items, done, titles, current)
        found += (_worked(replace(place, id=id), done[id]) for id in done if id not in items)
    return found


def _listed(
    place: ItemWork,
    items: Mapping[str, PlannedItem],
    works: Mapping[str, list[IterationWork]],
    titles: Mapping[str, str],
    current: str,
) -> Iterator[ItemWork]:
    held: set[str] = set()
    for number, item in enumerate(items.values(), 1):
        status: ItemWorkStatus = item.status
        if status == "pending" and held.intersection(item.after):
            status = "blocked"
        elif status == "pending" and item.id == current:
            status = "running"
        if status in ("failed", "blocked"):
            held.add(item.id)
        one = replace(
            place,
            id=item.id,
            number=number,
            of=len(items),
            status=status,
            title=titles.get(item.id, ""),
            after=item.after,
            repair=item.repair,
        )
        yield _worked(one, works.get(item.id, ()))


def _worked(one: ItemWork, works: Iterable[IterationWork]) -> ItemWork:
    listed = tuple(works)
    reason = listed[-1].item_reason if listed and one.status == "failed" else ""
    iterations = tuple(ItemIteration(work.visit, work.iteration) for work in listed)
    return replace(one, reason=reason, iterations=iterations)


def item_titles(node: StageNode, history: History, read: ReadArtifact) -> dict[str, str]:
    """What the artifact with the list calls them, by id."""
    source = node.sources.items if node.sources else None
    if source is None or not isinstance(node.termination, Items):
        return {}
    known = history.artifact_of(source)
    try:
        value: dict[str, Any] = read(known) if known else {}
    except UnusableFile:
        return {}
    found = elements_of(value, node.termination.field, node.termination.max)
    return {one.id: title_of(one.value) for one in found if not isinstance(one, str)}


def title_of(element: Any) -> str:
    """What an artifact calls an item, on one line; empty if it has no such text. An item can be a text."""
    for text in map(element.get, _TITLES) if isinstance(element, dict) else (element,):
        if isinstance(text, str) and text:
            return one_line(text, TITLE_CHARS)
    return ""
