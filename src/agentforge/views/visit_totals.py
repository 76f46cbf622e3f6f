"""How long a visit took, which tokens were reported for it, and how often an attempt was retried."""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.facts.fact import Fact, TaskOutcome
from agentforge.model.spending import plus
from agentforge.views.run_model import Summary


class VisitTotals(Struct, frozen=True):
    """As of the latest event of the visit."""

    started_at: datetime
    waited: float = 0.0
    """How long the run had been stopped before the visit began."""
    seconds: float = 0.0
    """Without the time in which the run was stopped."""
    tokens: int = 0
    """Those that providers reported: of all attempts and judges."""
    unreported: int = 0
    """Attempts and judges that ran and reported none."""
    reported: int = 0
    cost_usd: float | None = None
    """None if none of them reported its cost."""
    retries: int = 0
    """Attempts that followed a failed one of their iteration."""
    has_failed: bool = False
    """Whether the latest attempt failed."""

    @property
    def tokens_used(self) -> int | None:
        """None: unknown, as none of those that ran reported any."""
        return None if self.unreported and not self.reported else self.tokens

    def at(self, when: datetime, summary: Summary) -> "VisitTotals":
        """`summary`: of the run, at that time."""
        waited = summary.waited_seconds - self.waited
        if summary.stopped_at is not None:
            waited += (when - summary.stopped_at).total_seconds()
        # The clock may have been set back.
        return replace(self, seconds=max(0.0, (when - self.started_at).total_seconds() - waited))

    def after(self, event: Event, summary: Summary) -> "VisitTotals":
        """After one more event of the visit."""
        return _counted(self, event.fact).at(event.at, summary)


def begun_totals(event: Event, summary: Summary) -> VisitTotals:
    return VisitTotals(event.at, summary.waited_seconds)


def _counted(totals: VisitTotals, fact: Fact) -> VisitTotals:
    match fact:
        case f.IterationStarted():
            return replace(totals, has_failed=False)
        case f.AttemptStarted():
            return replace(totals, retries=totals.retries + totals.has_failed, has_failed=False)
        case f.ErrorOccurred(attempt=0) | f.JudgeCompleted(status="skipped"):
            return totals  # Nothing ran.
        case TaskOutcome(KIND="agent" | "judge"):
            totals = replace(totals, has_failed=totals.has_failed or isinstance(fact, f.ErrorOccurred))
            usage = fact.usage
            if usage is not None and usage.cost_usd is not None:
                totals = replace(totals, cost_usd=plus(totals.cost_usd or 0.0, usage.cost_usd))
            tokens = (usage.input_tokens, usage.output_tokens) if usage else (None, None)
            if tokens == (None, None):
                return replace(totals, unreported=totals.unreported + getattr(fact, "started", True))
            used = sum(count or 0 for count in tokens)
            return replace(totals, tokens=totals.tokens + used, reported=totals.reported + 1)
        case _:
            return totals
