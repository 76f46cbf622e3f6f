"""What should happen now in a stage: its iterations and attempts, judge, queue and delays.

The same for a step of the run and for a stage of a provider's branch; who asked turns the verdict into
the facts of its own level.
"""

from datetime import timedelta

from msgspec import Struct

from agentforge.engine.decide_failure import Failed, Question, choose, turn_after
from agentforge.engine.evolve_stage import IN_FLIGHT
from agentforge.engine.retry import DEFAULT_POLICY
from agentforge.engine.termination import JUDGE_FAILURES, end_of, wants_judge, wants_queue
from agentforge.model import facts as f
from agentforge.model.event import Draft
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.place import Place, place_of
from agentforge.model.plan import Plan, StageNode
from agentforge.model.state import AT_MOST_ONCE, AttemptState, IterationState, RunState, StageState
from agentforge.model.status import AttemptStatus
from agentforge.model.work import CheckQueue, End, Execute, Judge, Prepare, Wait, Work

DEFAULT_DELAY = 3.0
LOST_IN_A_ROW = 3
RECOVERIES_WITHOUT_PROGRESS = 3
CONTINUED_AT_MOST = 5
"""How often an agent's own session is gone on with; then a fresh one begins."""


class Verdict(Struct, frozen=True):
    facts: tuple[Draft, ...] = ()
    work: tuple[Work, ...] = ()
    done: str | None = None
    """Why the stage is complete."""
    failure: Failure | None = None
    """Why the stage can't go on."""
    question: Question | None = None


class StageAt(Struct, frozen=True):
    """A stage under way, with all that a decision about it depends on."""

    plan: Plan
    state: RunState
    place: Place
    node: StageNode
    at: StageState

    def record(self, fact: f.AnyFact) -> Verdict:
        number = self.at.iteration.number if self.at.iteration else self.at.completed
        return Verdict((Draft(fact, self.place.cursor(number)),))


def stage_at(plan: Plan, state: RunState, provider: str | None, at: StageState) -> StageAt | None:
    """None where the plan has no such stage, as after damage."""
    node, place = plan.stage(at.path, provider), place_of(plan, state, provider, at)
    return StageAt(plan, state, place, node, at) if node and place else None


def decide_stage(here: StageAt) -> Verdict:
    if here.at.iteration is None:
        return _between_iterations(here)
    return _within_iteration(here, here.at.iteration)


def in_flight(at: StageState) -> AttemptState | None:
    attempt = at.iteration.attempt if at.iteration else None
    return attempt if attempt is not None and attempt.status in IN_FLIGHT else None


def execute(here: StageAt, attempt: AttemptState) -> Execute | End:
    """The attempt goes on, or is ended: a kill that was recorded as intended is carried out, whoever
    drives the run by now."""
    iteration = here.at.iteration
    assert iteration is not None
    if attempt.status is AttemptStatus.ENDING:
        return End(here.place, here.node, iteration.number, attempt.number)
    return Execute(
        here.place, here.node, iteration.number, attempt.number, attempt.timeout, attempt.idle_timeout
    )


def judging(here: StageAt) -> Judge | None:
    """The judge that is at work, if one is."""
    judge = here.at.judge
    return Judge(here.place, here.node, here.at.completed, judge.attempt) if judge and judge.running else None


def _between_iterations(here: StageAt) -> Verdict:
    at, node, place = here.at, here.node, here.place
    plateau_test = here.state.settings.plateau_test
    if at.failure is not None:
        return Verdict(failure=at.failure)
    if wants_judge(node.termination, at) and not plateau_test:
        return _judge(here)
    if wants_queue(node.termination, at):
        return Verdict(work=(CheckQueue(place, node, at.completed),))
    if reason := end_of(node.termination, at, plateau_test=plateau_test):
        return Verdict(done=reason)
    if question := _question(here):
        return Verdict(question=question)
    if at.delay_due is not None:
        return Verdict(work=(Wait("delay", at.delay_due, place.cursor(at.completed)),))
    delay = _delay(here)
    if at.completed and delay and not at.delay_over and at.last_completed_at:
        return here.record(f.DelayStarted(at.last_completed_at + timedelta(seconds=delay)))
    return Verdict(work=(Prepare(place, node, at.completed + 1),))


def _judge(here: StageAt) -> Verdict:
    if here.at.judge_failures >= JUDGE_FAILURES:
        unheard = f.JudgeResult(stop=False, reason="judge_unreliable")
        return here.record(f.JudgeCompleted("skipped", unheard))
    if work := judging(here):
        return Verdict(work=(work,))
    if question := _stuck(here):
        return Verdict(question=question)
    judge = here.plan.judge
    attempt = here.at.judge.attempt + 1 if here.at.judge else 1
    return here.record(f.JudgeStarted(judge.type, judge.model, attempt))


def _within_iteration(here: StageAt, iteration: IterationState) -> Verdict:
    attempt = iteration.attempt
    if running := in_flight(here.at):
        return Verdict(work=(execute(here, running),))
    if here.node.semantics == "at_most_once" and attempt is not None and attempt.came_to_nothing:
        return Verdict(question=_once(here, iteration, attempt))
    if attempt is not None and attempt.status is AttemptStatus.FAILED:
        return _after_failure(here, iteration, attempt)
    if attempt is not None and attempt.status is AttemptStatus.WAITING:
        assert attempt.due_at is not None
        return Verdict(work=(Wait("retry", attempt.due_at, here.place.cursor(iteration.number)),))
    if question := _question(here):
        return Verdict(question=question)
    return here.record(_next_attempt(here, iteration))


def _after_failure(here: StageAt, iteration: IterationState, attempt: AttemptState) -> Verdict:
    remaining = remaining_seconds(here.plan, here.state, here.node)
    turn = turn_after(Failed(here.node, here.at, iteration, attempt, remaining))
    match turn:
        case Question():
            return Verdict(question=turn)
        case Failure():
            question = _question(here) if turn.kind is FailureKind.ITERATION_TIMEOUT else None
            # The time that ran out may have been the run's, not the attempt's: a person may grant more.
            return Verdict(question=question) if question else Verdict(failure=turn)
        case _:
            return here.record(turn)


def _once(here: StageAt, iteration: IterationState, attempt: AttemptState) -> Question:
    died = "it was ended" if attempt.status is AttemptStatus.CANCELLED else "the engine or the machine died"
    why = attempt.failure.message if attempt.failure else died
    who = f"{here.place.branch}: " if here.place.branch else ""
    return Question(
        AT_MOST_ONCE,
        f"{who}attempt {attempt.number} at iteration {iteration.number} of stage {here.node.id!r} came to"
        f" nothing ({why}) and may have done a part of its work. Make it again (resume), or end the run"
        " (cancel)?",
    )


def _next_attempt(here: StageAt, iteration: IterationState) -> f.AttemptStarted:
    node = here.node
    remaining = remaining_seconds(here.plan, here.state, node)
    timeout = min((limit for limit in (node.timeout, remaining) if limit is not None), default=None)
    choice = choose(1 + len(node.fallbacks), here.at, here.state.updated_at)
    provider, agent = node.chosen(choice), iteration.agent
    goes_on = agent is not None and agent.choice == choice and agent.continued < CONTINUED_AT_MOST
    return f.AttemptStarted(
        attempt=iteration.attempts + 1,
        of=(node.retry or DEFAULT_POLICY).max_attempts,
        provider=provider.type,
        model=provider.model,
        timeout=timeout,
        idle_timeout=node.idle_timeout,
        choice=choice,
        resume=agent.id if agent and goes_on else None,
        once=node.semantics == "at_most_once",
    )


def _delay(here: StageAt) -> float:
    if here.state.settings.delay is not None:
        return here.state.settings.delay
    return DEFAULT_DELAY if here.node.delay is None else here.node.delay


def max_runtime(plan: Plan, node: StageNode) -> float | None:
    """The tightest of the limits that the run and the stage set."""
    limits = [rails.max_runtime_seconds for rails in (plan.pipeline.guardrails, node.guardrails) if rails]
    return min((limit for limit in limits if limit is not None), default=None)


def remaining_seconds(plan: Plan, state: RunState, node: StageNode) -> float | None:
    """What is left of the runtime limit as of the latest event; nothing if there is no limit."""
    limit = max_runtime(plan, node)
    if limit is None:
        return None
    return max(0.0, limit - (state.updated_at - state.clock_from).total_seconds())


def _question(here: StageAt) -> Question | None:
    iteration, state, node = here.at.iteration, here.state, here.node
    if iteration is not None and iteration.lost >= LOST_IN_A_ROW:
        return Question(
            "attempts_lost",
            f"{iteration.lost} attempts at iteration {iteration.number} of stage {node.id!r} were lost"
            " in a row because the engine or the machine died. Go on?",
        )
    if question := _stuck(here):
        return question
    if remaining_seconds(here.plan, state, node) == 0.0:
        limit = max_runtime(here.plan, node)
        return Question(
            "runtime_limit", f"the runtime limit of {limit:g} s is used up. Grant the same again?"
        )
    return None


def _stuck(here: StageAt) -> Question | None:
    recoveries = here.state.recoveries
    if recoveries < RECOVERIES_WITHOUT_PROGRESS:
        return None
    return Question(
        "recoveries_without_progress",
        f"the run was taken up {recoveries} times without completing an iteration. Go on?",
    )
