"""The transitions of a run: from stage to stage, to where it stops, and back when it continues.

A fold of its own, because an engine that logs them must not grow with the iterations as the record does: it
has the visits that are under way, and no others.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.status import RunStatus
from agentforge.views.run_model import RunModel
from agentforge.views.text import reason_text
from agentforge.views.visit_totals import VisitTotals, begun_totals
from agentforge.views.visits import StageVisit, begun_visit, visited

STOPS: Mapping[RunStatus, str] = {
    **{stop: stop.upper() for stop in (RunStatus.FAILED, RunStatus.PAUSED, RunStatus.AWAITING_APPROVAL)},
    RunStatus.COMPLETED: "COMPLETE",
    RunStatus.ABORTED: "CANCELLED",
}
"""What a run that stops is said to transition to."""
_EndOfVisit = f.NodeCompleted | f.StageCompleted | f.NodeRestarted
_Concluded = f.StageVerdictReached | f.StageTransitioned | _EndOfVisit


class StageTransition(Struct, frozen=True):
    session_id: str
    from_stage: str | None
    """The id of a stage or block, or a value of STOPS; None: the run starts."""
    to_stage: str
    duration_ms: int
    """Of the visit of `from_stage` so far, without the time in which the run was stopped; this and the
    following are 0 if that is not a stage."""
    tokens_used: int | None
    """As reported; None: unknown."""
    cycle_count: int
    """Which visit of `from_stage` it was; if that is not a stage, of `to_stage`."""
    retry_count: int
    """Attempts of the visit that followed a failed one."""
    reason: str
    """Why the visit or the run ended."""
    provider: str | None = None
    """The branch, inside a parallel block."""
    cycle: int = 0
    """Of a route back: the pass that begins."""
    cycle_limit: int = 0

    @property
    def words(self) -> str:
        """`verifier → executor (cycle 2 of 3)`"""
        branch = f"{self.provider}: " if self.provider else ""
        cycle = f" (cycle {self.cycle} of {self.cycle_limit})" if self.cycle else ""
        return f"{branch}{self.from_stage or 'start'} → {self.to_stage}{cycle}"


class _Under(Struct, frozen=True):
    """The visit that is under way, or the latest one."""

    name: str
    at: Cursor
    totals: VisitTotals
    visit: StageVisit | None
    """None: of a block."""
    is_over: bool = False


class Transitions:
    """Of one run, from its first event on."""

    def __init__(self) -> None:
        self.run = RunModel()
        """As of the latest event."""
        self._under: dict[str | None, _Under] = {}
        """By branch."""
        self._stop: str | None = None

    def apply(self, event: Event) -> StageTransition | None:
        self.run.apply(event)
        fact, status, state = event.fact, event.fact.run_status, self.run.state
        here = self._under.get(None)
        if isinstance(fact, f.PlanChanged):
            self._move(fact)
        elif isinstance(fact, f.ProviderCompleted):
            return self._leave(event, fact)
        elif status is not None and status in STOPS:
            return self._stopped(event, STOPS[status])
        elif self._stop and state and state.status is RunStatus.RUNNING and here and not here.is_over:
            return self._from_stop(event, here.name, here.at)
        elif event.cursor is not None:
            return self._worked(event, event.cursor)
        return None

    def _worked(self, event: Event, at: Cursor) -> StageTransition | None:
        entered = self._entered(event, replace(at, iteration=0))
        if (here := self._under.get(at.provider)) and not here.is_over:
            visit, totals = here.visit, here.totals.after(event, self.run.summary)
            if visit is not None and isinstance(event.fact, _Concluded):
                visit = visited(visit, event.at, at, event.fact)
            is_over = isinstance(event.fact, _EndOfVisit)
            self._under[at.provider] = replace(here, totals=totals, visit=visit, is_over=is_over)
        return entered

    def _entered(self, event: Event, at: Cursor) -> StageTransition | None:
        branch, before = at.provider, self._under.get(at.provider)
        # In a branch, no fact says that the first visit to a stage begins.
        plan = self.run.plan
        node = plan.stage(at.node_path, branch) if plan and branch else None
        name = event.fact.name if isinstance(event.fact, f.NodeStarted) else node.id if node else ""
        if not name or (before and before.at == at):
            return None
        visit = begun_visit(plan, at, event.at)
        self._under[branch] = _Under(name, at, begun_totals(event, self.run.summary), visit)
        left = before or (self._under.get(None) if branch else None)
        if left is None or (self._stop and not branch):
            return self._from_stop(event, name, at)
        return _from_visit(event, left, name, branch)

    def _leave(self, event: Event, fact: f.ProviderCompleted) -> StageTransition | None:
        here, block = self._under.pop(fact.provider, None), self._under.get(None)
        if here is None or block is None:
            return None  # Of a damaged log.
        to = STOPS[RunStatus.FAILED] if fact.status == "failed" else block.name
        return _from_visit(event, here, to, fact.provider, fact.error or "")

    def _stopped(self, event: Event, to: str) -> StageTransition | None:
        fact, here = event.fact, self._under.get(None)
        why = fact.message if isinstance(fact, f.SessionFailed) else getattr(fact, "reason", "")
        if self._stop == to:
            return None  # It continued, and stopped before it came to a stage.
        if self._stop or here is None:
            return self._from_stop(event, to, here.at if here else None, why, stop=to)
        self._stop = to
        if not here.is_over:
            here = replace(here, totals=here.totals.at(event.at, self.run.summary))
        return _from_visit(event, here, to, None, why)

    def _from_stop(
        self, event: Event, to: str, at: Cursor | None, reason: str = "", stop: str | None = None
    ) -> StageTransition:
        """From where the run stopped, or from its start. `at`: the stage; `stop`: where it stops now."""
        left, self._stop, cycle = self._stop, stop, at.node_run if at else 1
        return StageTransition(event.session, left, to, 0, 0, cycle, 0, reason_text(reason))

    def _move(self, fact: f.PlanChanged) -> None:
        """A stage that continues under a new plan may have another path."""
        for branch, here in self._under.items():
            path = fact.paths.get(here.at.node_path) or here.at.node_path
            self._under[branch] = replace(here, at=replace(here.at, node_path=path))


def transitions_before(event: Event, past: Iterable[Event]) -> Transitions:
    """`past`: the events of the run, at least those before the event."""
    transitions = Transitions()
    for one in past if event.seq > 1 else ():
        if one.seq >= event.seq:
            break
        transitions.apply(one)
    return transitions


def _from_visit(
    event: Event, left: _Under, to: str, provider: str | None, reason: str = ""
) -> StageTransition:
    """`reason`: why the run or the branch stops, if it does."""
    visit, why, cycle, limit = left.visit, reason, 0, 0
    if visit is not None and not reason:
        why, cycle, limit = visit.ended, visit.cycle, visit.of
        if visit.verdict:
            why = f"{visit.verdict}: {visit.reason}" if visit.reason else visit.verdict
    return StageTransition(
        session_id=event.session,
        from_stage=left.name,
        to_stage=to,
        duration_ms=round(left.totals.seconds * 1000),
        tokens_used=left.totals.tokens_used,
        cycle_count=left.at.node_run,
        retry_count=left.totals.retries,
        reason=reason_text(why),
        provider=provider,
        cycle=cycle,
        cycle_limit=limit,
    )
