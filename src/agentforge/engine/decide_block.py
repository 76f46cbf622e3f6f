"""What should happen now in a parallel block: every branch goes on by itself, the block waits for all."""

from agentforge.engine.decide_failure import Question
from agentforge.engine.decide_stage import StageAt, Verdict, decide_stage
from agentforge.model import facts as f
from agentforge.model.event import Cursor, Draft
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.place import Place, branch_place, folder_of
from agentforge.model.plan import ParallelNode, Plan, Step
from agentforge.model.state import AT_MOST_ONCE, BlockState, BranchState, RunState, StageState
from agentforge.model.status import NodeStatus
from agentforge.model.work import Work, WriteManifest

OVER = frozenset({NodeStatus.COMPLETED, NodeStatus.FAILED})


def decide_block(plan: Plan, state: RunState, step: Step, block: BlockState) -> Verdict:
    branches = _branches(step, block)
    if all(branch.status in OVER for branch in branches):
        return _after_all(plan, step, block, branches)
    facts: list[Draft] = []
    work: list[Work] = []
    questions: list[Question] = []
    for branch in branches:
        verdict = _decide_branch(plan, state, step, block, branch)
        facts += verdict.facts
        work += verdict.work
        questions += [verdict.question] if verdict.question else []
    if facts or work:
        # A person is asked only when nothing else can go on.
        return Verdict(tuple(facts), tuple(work))
    return Verdict(question=_all_in_one(questions))


def _branches(step: Step, block: BlockState) -> tuple[BranchState, ...]:
    """As the plan has them: a damaged log may have lost some, or tell of others."""
    planned = step.node.branches if isinstance(step.node, ParallelNode) else ()
    return tuple(block.branch(branch.provider) or BranchState(branch.provider) for branch in planned)


def _all_in_one(questions: list[Question]) -> Question | None:
    """One answer is for all branches, so all of them are in the question."""
    if not questions:
        return None
    reasons = [question.reason for question in questions]
    reason = AT_MOST_ONCE if AT_MOST_ONCE in reasons else reasons[0]
    return Question(reason, "\n".join(dict.fromkeys(question.text for question in questions)))


def _decide_branch(
    plan: Plan, state: RunState, step: Step, block: BlockState, branch: BranchState
) -> Verdict:
    here = Cursor(step.path, block.run, 0, branch.provider)
    stages = step.branch(branch.provider)
    if branch.status in OVER:
        return Verdict()
    if branch.status is NodeStatus.PENDING:
        started = f.ProviderStarted(branch.provider, tuple(stage.id for stage in stages))
        return Verdict((Draft(started, here),))
    if branch.next_stage >= len(stages):
        return Verdict((Draft(f.ProviderCompleted(branch.provider), here),))
    path = step.inner_path(stages[branch.next_stage])
    at = branch.stage if branch.stage and plan.stage(branch.stage.path, branch.provider) else None
    at = at or StageState(path, block.run)
    place, node = branch_place(plan, block, branch.provider, at.path), stages[at.position]
    stage = StageAt(plan, state, place, node, at)
    verdict = decide_stage(stage)
    if verdict.done is not None:
        return stage.record(f.StageCompleted(node.id, verdict.done, at.completed))
    if verdict.failure is not None:
        error = f"{node.id}: {verdict.failure.message}"
        return Verdict((Draft(f.ProviderCompleted(branch.provider, "failed", error), here),))
    return verdict


def _after_all(plan: Plan, step: Step, block: BlockState, branches: tuple[BranchState, ...]) -> Verdict:
    failed = [branch for branch in branches if branch.status is NodeStatus.FAILED]
    if failed:
        why = "; ".join(f"{b.provider}: {b.failure.message if b.failure else ''}" for b in failed)
        message = f"Parallel block {step.node.id!r} failed. Failed providers: {why}"
        return Verdict(failure=Failure(FailureKind.PARALLEL_BLOCK_FAILED, message))
    if not block.manifest:
        place = Place(block.path, block.run, folder_of(plan, block))
        return Verdict(work=(WriteManifest(place),))
    return Verdict(done="all providers complete")
