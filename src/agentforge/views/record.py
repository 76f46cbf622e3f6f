"""The record of a run: all that its log tells, folded once. What people look at are selections of it.

The log is folded twice in this package, for two reasons that exclude each other. `RunModel` is what an engine
keeps in memory for days and what state.json caches for `status`: it must not grow with the iterations. The
record has every visit, iteration, check and call, so it grows, and is built only for a look at one run. They
share the meaning of each fact: `visited`, `worked` and `delivered` say what becomes of one entry, the folds
only say which entry it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.delivery import DeliveredWork
from agentforge.model.event import Event
from agentforge.model.hook import HookPoint
from agentforge.model.layout import iteration_dir
from agentforge.model.place import place_of
from agentforge.model.request import Feedback, Request
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus
from agentforge.ports.host import is_tree_id
from agentforge.views.hook_calls import Delivery, HookTry, TryFact, asks_about_hook, begun_delivery, delivered
from agentforge.views.run_model import RunModel
from agentforge.views.visit_totals import VisitTotals, begun_totals
from agentforge.views.visits import StageVisit, VisitFact, begun_visit, visited
from agentforge.views.waits import RunWait, WaitKey, waits_after
from agentforge.views.work import EndOfAttempt, IterationFact, IterationWork, worked

_Moved = TypeVar("_Moved", StageVisit, IterationWork, Delivery)
_Call = tuple[Cursor | None, HookPoint, str, str, int]
"""Place, point, hook and subject: a hook is called there once, and again when the run fails there again."""


class RunTrees(Struct, frozen=True):
    """The first and the latest known tree of a run."""

    first: str | None = None
    latest: str | None = None


class Said(Struct, frozen=True):
    """What an agent asked, or what it was told. Secrets are references."""

    kind: Literal["question", "answer", "feedback", "note"]
    text: str
    by: str
    """Who said it; of a question, the stage that asked."""
    stage: str = ""
    """Of feedback: the stage that it is for."""
    branch: str | None = None
    """None: it is for all of them."""


class RunRecord:
    """Each collection is in the order in which its entries began. A node is named as in the present plan; one
    that the plan has lost keeps the path that it had."""

    def __init__(self) -> None:
        self.model = RunModel()
        """The plan, the state and the counters, as of the last event."""
        self.trace_id = ""
        """Empty: the log is that of the shell engine."""
        self.trees = RunTrees()
        self.requests: dict[str, Request] = {}
        """All that were asked, by id, as they were last."""
        self.said: list[Said] = []
        """What agents asked, and what people, hooks and checks said."""
        self.resumed_at: list[datetime] = []
        """When an engine continued the run."""
        self.delivered: DeliveredWork | None = None
        """What the run delivered last."""
        self.waits: list[RunWait] = []
        """What the run waited for."""
        self._waiting: dict[WaitKey, int] = {}
        """Those that are not over, by their places in `waits`."""
        self._visits: dict[Cursor, StageVisit] = {}
        self._totals: dict[Cursor, VisitTotals] = {}
        self._iterations: dict[Cursor, IterationWork] = {}
        self._deliveries: dict[_Call, Delivery] = {}
        self._by_key: dict[str, _Call] = {}
        self._tree: str | None = None
        """The latest tree; None: unknown."""
        self._under_way: set[Cursor] = set()
        """The iterations whose agents are running."""

    @property
    def visits(self) -> tuple[StageVisit, ...]:
        return tuple(self._visits.values())

    @property
    def totals(self) -> tuple[VisitTotals, ...]:
        """Of each visit."""
        return tuple(self._totals[key] for key in self._visits)

    @property
    def iterations(self) -> tuple[IterationWork, ...]:
        return tuple(self._iterations.values())

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        return tuple(self._deliveries.values())

    def placed(self) -> Iterator[tuple[Cursor | None, StageVisit | IterationWork | Delivery]]:
        """All visits, then the iterations, then the deliveries, each with its place. A node that the plan has
        lost is at its key."""
        yield from self._visits.items()
        yield from self._iterations.items()
        yield from ((place[0], one) for place, one in self._deliveries.items())

    def apply(self, event: Event) -> None:
        before = self.model.state
        self.model.apply(event)
        self.trace_id = self.trace_id or event.trace_id
        at, fact = event.cursor, event.fact
        if isinstance(fact, f.Delivered):
            self.delivered = fact.work
        if isinstance(fact, f.SessionResumed | f.SessionRecovered):
            self.resumed_at.append(event.at)
        if at is not None and isinstance(fact, VisitFact):
            key = replace(at, iteration=0)
            if visit := self._visits.get(key) or begun_visit(self.model.plan, at, event.at):
                self._visits[key] = visited(visit, event.at, at, fact)
        self._add(event)
        if at is not None and isinstance(fact, IterationFact):
            self._work(event, at, fact)
        if isinstance(fact, f.HookStarted | f.HookSkipped):
            self._call(event, fact)
        # A damaged log may lack the start of a call.
        if isinstance(fact, TryFact) and (place := self._by_key.get(fact.delivery)):
            self._deliveries[place] = delivered(self._deliveries[place], event.at, fact)
        if isinstance(fact, f.RequestOpened | f.RequestAnswered):
            for request in self.model.state.requests if self.model.state else ():
                if request.id == fact.id:
                    self._ask(request)
        if (said := self._said(at, fact)) is not None:
            self.said.append(said)
        if isinstance(fact, f.PlanChanged):
            self._move(fact)
        plan, state = self.model.plan, self.model.state
        # The first event has both.
        assert plan is not None
        assert state is not None
        self._wait(dict(waits_after(plan, state, event)), event, before)

    def _wait(self, now: Mapping[WaitKey, RunWait], event: Event, before: RunState | None) -> None:
        for key in [key for key in self._waiting if key not in now]:
            number = self._waiting.pop(key)
            self.waits[number] = replace(self.waits[number], ended_at=event.at)
        for key, wait in now.items():
            if key not in self._waiting:
                self._waiting[key] = len(self.waits)
                self.waits.append(wait)
        if isinstance(event.fact, f.SessionRecovered) and before and before.status is RunStatus.RUNNING:
            self.waits.append(RunWait("engine", before.updated_at, ended_at=event.at))

    def _add(self, event: Event) -> None:
        key = replace(event.cursor, iteration=0) if event.cursor else None
        visit, summary = self._visits.get(key) if key else None, self.model.summary
        if key is None or visit is None or (visit.ended_at or event.at) < event.at:
            return
        self._totals[key] = self._totals.get(key, begun_totals(event, summary)).after(event, summary)

    def _said(self, at: Cursor | None, fact: f.Fact) -> Said | None:
        branch = at.provider if at else None
        match fact:
            case f.NoteAdded(text=text, by=by):
                return Said("note", text, by)
            case f.NodeRestarted(name=stage, feedback=Feedback(text=text, by=by)):
                return Said("feedback", text, by, stage, branch)
            case f.StageTransitioned(to=stage, feedback=Feedback(text=text, by=by)):
                return Said("feedback", text, by, stage, branch)
            case f.RequestOpened(kind="question", question=text):
                plan = self.model.plan
                node = plan.stage(at.node_path, at.provider) if plan and at else None
                return Said("question", text, node.id if node else "", branch=branch)
            case f.RequestAnswered(id=id, answer=answer, by=by, text=remark):
                asked = self.requests.get(id)
                if asked is not None and asked.kind == "question":
                    text = f"{answer}\n{remark}" if remark else answer
                    return Said("answer", text, by, branch=asked.at.provider if asked.at else None)
        return None

    # -- iterations

    def _work(self, event: Event, at: Cursor, fact: IterationFact) -> None:
        if isinstance(fact, f.ErrorOccurred) and not fact.attempt:
            return  # Of what comes before an iteration, or between two: none has failed.
        # An attempt that never started has no tree, which doesn't make the latest one unknown.
        if isinstance(fact, f.TreeTaken | EndOfAttempt) and getattr(fact, "started", True):
            self._see(fact.tree)
        if at not in self._iterations or isinstance(fact, f.IterationStarted):
            if isinstance(fact, f.TreeTaken | f.GitLeft | f.ItemEnded):
                return  # Of an iteration that a damaged log lacks: it says nothing about what was done.
            self._iterations[at] = self._begun(event, at, fact)
        self._iterations[at] = worked(self._iterations[at], event, fact, self._tree)
        if isinstance(fact, f.AttemptStarted):
            self._under_way.add(at)
            self._share(at)
        elif isinstance(fact, EndOfAttempt):
            self._under_way.discard(at)

    def _begun(self, event: Event, at: Cursor, fact: IterationFact) -> IterationWork:
        """A damaged log may lack the start of an iteration, or the node."""
        id, folder = at.node_path, ""
        plan, state = self.model.plan, self.model.state
        if isinstance(fact, f.IterationStarted):
            node = plan.stage(at.node_path, at.provider) if plan else None
            stage = state.stage(at.provider) if state else None
            place = place_of(plan, state, at.provider, stage) if plan and state and stage else None
            id = node.id if node else fact.stage
            folder = iteration_dir(place.folder, at.iteration) if place else ""
        work = IterationWork(
            at.node_path, id, at.node_run, at.iteration, event.at, at.provider, folder=folder
        )
        if isinstance(fact, f.IterationStarted):
            work = replace(work, item=fact.item, context=fact.context)
        return work

    def _see(self, tree: str | None) -> None:
        # A log may have come with a repository: git would take another text for an option.
        self._tree = tree if tree is not None and is_tree_id(tree) else None
        if self._tree is not None:
            self.trees = RunTrees(self.trees.first or self._tree, self._tree)

    def _share(self, at: Cursor) -> None:
        """Branches of a block work on the same files: what changes meanwhile is of none of them alone."""
        others = [other for other in self._under_way if other != at and other.provider]
        for one in (at, *others) if others and at.provider else ():
            self._iterations[one] = replace(self._iterations[one], changed_by_others=True)

    # -- calls of hooks, and requests

    def _call(self, event: Event, fact: f.HookStarted | f.HookSkipped) -> None:
        here, number = (event.cursor, fact.point, fact.hook, fact.subject), 0
        while (*here, number + 1) in self._deliveries:
            number += 1
        known = self._deliveries.get((*here, number))
        if isinstance(fact, f.HookStarted) and known and known.key not in (None, fact.delivery):
            number, known = number + 1, None
        place = (*here, number)
        one = known or begun_delivery(fact, self.model.plan, event.cursor)
        if isinstance(fact, f.HookStarted):
            self._by_key[fact.delivery] = place
            self._deliveries[place] = replace(
                one, tries=(*one.tries, HookTry(fact.attempt, event.at)), due_at=None
            )
        else:
            self._deliveries[place] = replace(one, skipped=fact.reason, due_at=None)

    def _ask(self, request: Request) -> None:
        self.requests[request.id] = request
        if not asks_about_hook(request):
            return
        for place in reversed(self._by_key.values()):
            one, (at, _, hook, *_) = self._deliveries[place], place
            # The latest call of the hook at that place led to the request.
            is_cause = (hook, at) == (request.subject, request.at)
            if one.request == request.id or (is_cause and request.is_open):
                said = {"decision": request.answer, "decided_by": request.answered_by}
                self._deliveries[place] = replace(one, request=request.id, **said)
                return

    # -- a new plan

    def _move(self, fact: f.PlanChanged) -> None:
        """What continues under the new plan is at the new place of its node."""

        def moved(at: Cursor) -> Cursor:
            path = at.node_path
            return replace(
                at, node_path=fact.paths.get(path, path) or fact.gone.get(path, f"{path} (removed)")
            )

        def named(one: _Moved, at: Cursor | None) -> _Moved:
            path = fact.paths.get(at.node_path) if at else None
            return replace(one, path=path) if path else one

        self._visits = {moved(at): named(one, at) for at, one in self._visits.items()}
        self._totals = {moved(at): one for at, one in self._totals.items()}
        self._iterations = {moved(at): named(one, at) for at, one in self._iterations.items()}
        self._under_way = {moved(at) for at in self._under_way}
        places = {place: (place[0] and moved(place[0]), *place[1:]) for place in self._deliveries}
        self._deliveries = {places[place]: named(one, place[0]) for place, one in self._deliveries.items()}
        self._by_key = {key: places[place] for key, place in self._by_key.items()}
        self.waits = [replace(one, at=one.at and moved(one.at)) for one in self.waits]
        self._waiting = {(id, at and moved(at)): n for (id, at), n in self._waiting.items()}


def record_of(events: Iterable[Event]) -> RunRecord:
    record = RunRecord()
    for event in events:
        record.apply(event)
    return record
