"""What should happen now in a parallel block: every branch goes on by itself, the block waits for all."""

from agentforge.engine.decide_failure import Question
from agentforge.engine.decide_stage import StageAt, Verdict, decide_stage
from agentforge.model import facts as f
from agentforge.model.event import Cursor, Draft
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import Branch, ParallelNode, Plan
from agentforge.model.state import AT_MOST_ONCE, BlockState, BranchState, NodeState, RunState
from agentforge.model.status import NodeStatus
from agentforge.model.work import Spot, Work, WriteManifest

OVER = frozenset({NodeStatus.COMPLETED, NodeStatus.FAILED})


def decide_block(plan: Plan, state: RunState, block: BlockState) -> Verdict:
    if all(branch.status in OVER for branch in block.branches):
        return _after_all(plan, block)
    facts: list[Draft] = []
    work: list[Work] = []
    questions: list[Question] = []
    for branch in block.branches:
        verdict = _decide_branch(plan, state, block, branch)
        facts += verdict.facts
        work += verdict.work
        questions += [verdict.question] if verdict.question else []
    if facts or work:
        # A person is asked only when nothing else can go on.
        return Verdict(tuple(facts), tuple(work))
    return Verdict(question=_all_in_one(questions))


def _all_in_one(questions: list[Question]) -> Question | None:
    """One answer is for all branches, so all of them are in the question."""
    if not questions:
        return None
    reasons = [question.reason for question in questions]
    reason = AT_MOST_ONCE if AT_MOST_ONCE in reasons else reasons[0]
    return Question(reason, "\n".join(dict.fromkeys(question.text for question in questions)))


def stage_in_block(plan: Plan, state: RunState, block: BlockState, provider: str, at: NodeState) -> StageAt:
    stage = _branch_plan(plan, block, provider).stages[at.index]
    prefix = plan.steps[block.index].path.removesuffix(_node(plan, block).path)
    spot = Spot(block.index, f"{prefix}{stage.path}", block.run, provider, at.index)
    return StageAt(plan, state, spot, stage, at)


def _decide_branch(plan: Plan, state: RunState, block: BlockState, branch: BranchState) -> Verdict:
    here = Cursor(plan.steps[block.index].path, block.run, 0, branch.provider)
    stages = _branch_plan(plan, block, branch.provider).stages
    if branch.status in OVER:
        return Verdict()
    if branch.status is NodeStatus.PENDING:
        started = f.ProviderStarted(branch.provider, tuple(stage.id for stage in stages))
        return Verdict((Draft(started, here),))
    if branch.next_stage >= len(stages):
        return Verdict((Draft(f.ProviderCompleted(branch.provider), here),))
    at = branch.stage or NodeState(branch.next_stage, block.run, NodeStatus.RUNNING)
    stage = stage_in_block(plan, state, block, branch.provider, at)
    verdict = decide_stage(stage)
    if verdict.done is not None:
        return stage.record(f.StageCompleted(stage.node.id, verdict.done, at.completed))
    if verdict.failure is not None:
        error = f"{stage.node.id}: {verdict.failure.message}"
        return Verdict((Draft(f.ProviderCompleted(branch.provider, "failed", error), here),))
    return verdict


def _after_all(plan: Plan, block: BlockState) -> Verdict:
    step = plan.steps[block.index]
    failed = [branch for branch in block.branches if branch.status is NodeStatus.FAILED]
    if failed:
        why = "; ".join(f"{b.provider}: {b.failure.message if b.failure else ''}" for b in failed)
        message = f"Parallel block {step.node.id!r} failed. Failed providers: {why}"
        return Verdict(failure=Failure(FailureKind.PARALLEL_BLOCK_FAILED, message))
    if not block.manifest:
        return Verdict(work=(WriteManifest(block.index, step.path, block.run),))
    return Verdict(done="all providers complete")


def _node(plan: Plan, block: BlockState) -> ParallelNode:
    node = plan.steps[block.index].node
    assert isinstance(node, ParallelNode)
    return node


def _branch_plan(plan: Plan, block: BlockState, provider: str) -> Branch:
    return next(branch for branch in _node(plan, block).branches if branch.provider == provider)
