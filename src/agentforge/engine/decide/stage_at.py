"""A stage in progress, as the gates see it: its plan, its state, its limits and its tasks."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.checks.feedback import failing_text
from agentforge.engine.decide.cap_sums import CapSums
from agentforge.engine.decide.requests import Question, Ruling
from agentforge.model import facts as f
from agentforge.model.artifact import ItemAt, PlannedItem
from agentforge.model.check import Baseline, Check
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.event import Draft
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.frozen import MAX_TOLD, named
from agentforge.model.layout import iteration_dir
from agentforge.model.place import Place, place_of, visits_key
from agentforge.model.plan import Items, Plan, StageNode
from agentforge.model.request import Feedback
from agentforge.model.state import CheckRecord, RunState, StageState, Waiver

DEFAULT_CHECK_TIMEOUT = 600.0
BY_CHECKS = "checks"
"""Who gives the feedback of failing checks."""


class StageAt(Struct, frozen=True):
    """A stage in progress, with everything that a decision depends on."""

    plan: Plan
    state: RunState
    place: Place
    node: StageNode
    at: StageState
    remaining: float | None
    """The seconds that the runtime limit leaves as of the latest event, or None without a limit."""
    sums: CapSums
    """With what other branches start before it in the same decision."""
    sharing: int = 1
    """How many branches share what is left to spend."""

    @property
    def cursor(self) -> Cursor:
        return self.place.cursor(self.at.iteration.number if self.at.iteration else self.at.completed)

    def record(self, fact: f.AnyFact) -> Ruling:
        return Ruling((Draft(fact, self.cursor),))

    @property
    def waiver(self) -> Waiver | None:
        """Why the stage isn't run, if a person skips it."""
        return None if self.place.branch else self.state.waiver_of(self.node.id)

    def is_waived(self, check: str) -> bool:
        return any(waiver.check == check for waiver in self.state.waivers)

    @property
    def waived(self) -> tuple[str, ...]:
        """The checks of the stage that don't count."""
        return tuple(check.name for check in self.node.checks if self.is_waived(check.name))

    @property
    def items(self) -> dict[str, PlannedItem]:
        """By id, in order; none if the present plan has the stage over no items."""
        if not isinstance(self.node.termination, Items):
            return {}
        return self.state.items.get(visits_key(self.place.path, self.place.branch), {})

    def item_at(self, id: str) -> ItemAt | None:
        """With its position; None if there is no such item."""
        if id not in self.items:
            return None
        repair = self.at.feedback if self.items[id].repair else None
        return ItemAt(id, [*self.items].index(id) + 1, len(self.items), repair)

    def known(self, about: str) -> CheckRecord | None:
        """The latest outcome of a check or of a baseline in this visit."""
        return next((known for known in self.at.checks if known.check == about), None)

    def outcome_of(self, check: Check, about: str = "") -> CheckRecord | None:
        """The outcome of a check after the completed iterations, or None. One that the runtime limit of the
        run ended has no outcome. `about`: its baseline, if that is meant."""
        found = self.known(about or check.name)
        if found is None or found.iteration != self.at.completed:
            return None
        is_ended_by_run = found.timeout is not None and found.timeout < check_timeout(check)
        return None if found.status == "timeout" and is_ended_by_run else found

    def baseline(self, check: Check) -> Baseline | None:
        """What it found before the first agent, if only its new failures count."""
        return self.state.baselines.get(check.baseline) if check.regressions else None

    def is_compared(self, baseline: str) -> bool:
        """Whether a stage that isn't skipped compares its check with the baseline."""
        stages = self.plan.placed.items()
        used = (one for (_, branch), one in stages if branch or self.state.waiver_of(one.id) is None)
        return any(check.baseline == baseline for one in used for check in one.checks)

    def is_used(self, check: Check) -> bool:
        """Whether its outcome counts: no person has waived it, and it can be compared with its baseline."""
        found = self.baseline(check)
        if self.is_waived(check.name) or (found and found.unusable):
            return False
        item = self.items.get(self.at.item)
        return not check.criteria or (item is not None and check.name in item.checks)

    @property
    def base(self) -> str | None:
        """The files when the visit began, if a check compares them and they are known."""
        first = self.known(scoped.baseline) if (scoped := self.node.scoped) else None
        return first.tree if first else None

    @property
    def failing(self) -> list[CheckRecord]:
        """The checks that fail on the work as it is; not those of an item that is over."""
        is_between = isinstance(self.node.termination, Items) and not self.at.item
        checks = (check for check in self.node.checks if not (is_between and _is_of_items(check)))
        known = map(self.outcome_of, filter(self.is_used, checks))
        return [each for each in known if each and each.fails]

    @property
    def feedback(self) -> Feedback | None:
        """What the next iteration is told: which frozen files were restored, and which checks fail, else what
        was said about the visit before."""
        failed, told, said = self.failing, self.restored, self.at.feedback
        if not (failed or told):
            return said
        text = failing_text(failed, told)
        if said is None or (failed and self.at.completed):
            return Feedback(text, BY_CHECKS)
        # Before the first iteration, what was said about the visit before is still to be heard.
        return replace(said, text=f"{said.text}\n\n{text}")

    @property
    def restored(self) -> str:
        """What is said about frozen files that were changed; empty if none was."""
        if not self.at.restored:
            return ""
        said = "These files must stay as they are. They were changed, and restored"
        return f"{said}: {named(self.at.restored, MAX_TOLD)}"

    @property
    def who(self) -> str:
        """The branch, before the text of a question; empty outside of a block."""
        return f"{self.place.branch}: " if self.place.branch else ""

    @property
    def files(self) -> tuple[str, ...]:
        """What the latest iteration left, for the feedback on it."""
        folder = iteration_dir(self.place.folder, self.at.completed)
        return (f"{folder}/output.md", f"{folder}/result.json") if self.at.completed else ()

    def visit_again(
        self,
        cause: Literal["rejected", "requested"],
        reason: str,
        *,
        by: str,
        feedback: Feedback | None,
    ) -> Ruling:
        """End this visit and begin another. A rejection is one round of approval."""
        # A branch has no destination of its own: the stage is its next one.
        to = Destination(self.place.path, self.state.rounds) if self.place.branch is None else None
        round = self.at.round + (cause == "rejected")
        return self.record(
            f.NodeRestarted(self.node.id, cause, reason, by, self.at.completed, round, feedback, to)
        )


def stage_in(plan: Plan, state: RunState, place: Place, node: StageNode, at: StageState) -> StageAt:
    limit, remaining = state.runtime_granted or max_runtime(plan, node), None
    if limit is not None:
        remaining = max(0.0, limit - (state.updated_at - state.clock_from).total_seconds())
    return StageAt(plan, state, place, node, at, remaining, CapSums(plan, state))


def stage_at(plan: Plan, state: RunState, provider: str | None, at: StageState) -> StageAt | None:
    """None if a damaged log names a stage that isn't in the plan."""
    node, place = plan.stage(at.path, provider), place_of(plan, state, provider, at)
    return stage_in(plan, state, place, node, at) if node and place else None


def stage_started(
    node: StageNode, path: str, run: int, folder: str, rounds: tuple[int, ...]
) -> f.NodeStarted:
    return f.NodeStarted(
        name=node.id,
        path=path,
        run=run,
        folder=folder,
        rounds=rounds,
        type=node.stage,
        provider=node.provider.type,
        model=node.provider.model,
        runs=0 if isinstance(node.termination, Items) else node.runs,
    )


def _is_of_items(check: Check) -> bool:
    """Whether it runs after each item only, not when the stage is over."""
    return "iteration" in check.at and "end" not in check.at


def check_timeout(check: Check) -> float:
    return DEFAULT_CHECK_TIMEOUT if check.timeout is None else check.timeout


def runtime_used_up(here: StageAt) -> Ruling | None:
    """The question whether the runtime limit is extended, unless the limit fails the stage."""
    if here.remaining != 0.0:
        return None
    limit = here.state.runtime_granted or max_runtime(here.plan, here.node)
    text = f"the runtime limit of {limit:g} s is used up"
    levels = (here.plan.pipeline.guardrails, here.node.guardrails)
    if any(level and level.on_timeout == "fail" and level.max_runtime_seconds == limit for level in levels):
        return Ruling(failure=Failure(FailureKind.ITERATION_TIMEOUT, text))
    text = f"{text}. Extend it by the same amount?"
    return Ruling(question=Question("runtime_limit", text, scope="run", grants="seconds"))


def max_runtime(plan: Plan, node: StageNode) -> float | None:
    """The lower of the limits of the run and the stage, or None."""
    run, stage = plan.pipeline.guardrails, node.guardrails
    return tightest(run.max_runtime_seconds if run else None, stage.max_runtime_seconds if stage else None)


def tightest(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
