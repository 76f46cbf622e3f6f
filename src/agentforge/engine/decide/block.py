"""Decides what should happen in a parallel block: branches are independent; the block waits for all."""

from msgspec.structs import replace

from agentforge.engine.decide.cap_sums import CapSums
from agentforge.engine.decide.hooks import call_after_failure, call_hooks
from agentforge.engine.decide.requests import Question, Ruling, opened
from agentforge.engine.decide.stage import decide_stage, stuck
from agentforge.engine.decide.stage_at import stage_in, stage_started
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Draft
from agentforge.model.failure import TIMEOUTS, Failure, FailureKind
from agentforge.model.place import Place, branch_place, folder_of, visits_key
from agentforge.model.plan import ParallelNode, Plan, Step
from agentforge.model.state import NO_VERDICT, BlockState, BranchState, RunState, StageState
from agentforge.model.status import NodeStatus
from agentforge.model.task import ManifestTask, Work

OVER = frozenset({NodeStatus.COMPLETED, NodeStatus.FAILED})


def decide_block(plan: Plan, state: RunState, step: Step, block: BlockState) -> Ruling:
    # The branches of the plan: a damaged log may lack some, or have others.
    planned = step.node.branches if isinstance(step.node, ParallelNode) else ()
    branches = tuple(block.branch(each.provider) or BranchState(each.provider) for each in planned)
    here = Cursor(step.path, block.run, 0)
    if all(branch.status in OVER for branch in branches):
        ruling = _after_all(plan, state, step, block, branches)
        hooks = call_hooks(plan, state, "stage_end", here, ruling.done) if ruling.done else None
        if ruling.failure is not None:
            hooks = call_after_failure(plan, state, here, ruling.failure)
        return hooks or ruling
    if calling := call_after_failure(plan, state, here):
        return calling
    is_new = all(branch.status is NodeStatus.PENDING for branch in branches)
    if is_new and (before := call_hooks(plan, state, "stage_start", here)):
        return before
    facts: list[Draft] = []
    work: list[Work] = []
    questions: list[Question] = []
    sums, sharing = CapSums(plan, state), sum(branch.status not in OVER for branch in branches)
    for branch in branches:
        ruling = _decide_branch(plan, state, step, block, branch, sums=sums, sharing=sharing)
        if ruling.failure is not None:
            failed = f.ProviderCompleted(
                branch.provider, "failed", ruling.failure.message, ruling.failure.kind
            )
            ruling = Ruling((Draft(failed, replace(here, provider=branch.provider)),))
        facts += ruling.facts
        sums.count(ruling.facts)
        work += ruling.work
        questions += [ruling.question] if ruling.question else []
    for question in questions:
        # What the other branches start at the same time comes before the question, which may hold them, too.
        facts += opened(state, question, facts)
    return Ruling(tuple(facts), tuple(work))


def _decide_branch(
    plan: Plan,
    state: RunState,
    step: Step,
    block: BlockState,
    branch: BranchState,
    *,
    sums: CapSums,
    sharing: int,
) -> Ruling:
    here = Cursor(step.path, block.run, 0, branch.provider)
    stages = step.branch(branch.provider)
    if branch.status in OVER:
        return Ruling()
    if branch.status is NodeStatus.PENDING:
        started = f.ProviderStarted(branch.provider, tuple(stage.id for stage in stages))
        return Ruling((Draft(started, here),))
    if branch.next_stage >= len(stages):
        done = Draft(f.ProviderCompleted(branch.provider), here)
        return call_hooks(plan, state, "parallel_provider_end", here) or Ruling((done,))
    is_new = branch.stage is None and not branch.stages and branch.reentry is None
    if is_new and (before := call_hooks(plan, state, "parallel_provider_start", here)):
        return before
    at = branch.stage if branch.stage and plan.stage(branch.stage.path, branch.provider) else None
    if at is None:
        path = step.inner_path(stages[branch.next_stage])
        at = StageState(path, state.visits.get(visits_key(path, branch.provider), 0) + 1)
    place, node = branch_place(plan, block, branch.provider, at), stages[at.position]
    was_visited = branch.reentry is not None or any(record.path == at.path for record in branch.stages)
    if branch.stage is None and was_visited:
        folder = f"{place.folder}/run-{place.run:03d}"
        return Ruling(
            (Draft(stage_started(node, place.path, place.run, folder, state.rounds), place.cursor(0)),)
        )
    stage = stage_in(plan, state, place, node, at)
    if plan.caps or plan.pipeline.daily_usd:
        stage = replace(stage, sums=sums, sharing=sharing)
    ruling = decide_stage(stage)
    if ruling.done is not None:
        given = at.verdict or NO_VERDICT
        return stage.record(
            f.StageCompleted(
                node.id, ruling.done, at.completed, given.word, given.accepted_by, given.accept_reason
            )
        )
    if ruling.failure is not None:
        message = f"{node.id}: {ruling.failure.message}"
        return Ruling(failure=replace(ruling.failure, message=message))
    return ruling


def _after_all(
    plan: Plan, state: RunState, step: Step, block: BlockState, branches: tuple[BranchState, ...]
) -> Ruling:
    failed = [branch for branch in branches if branch.status is NodeStatus.FAILED]
    if failed:
        why = "; ".join(f"{b.provider}: {b.failure.message if b.failure else ''}" for b in failed)
        message = f"Parallel block {step.node.id!r} failed. Failed providers: {why}"
        # A timeout, if that is why all of them failed.
        kinds = {branch.failure.kind for branch in failed if branch.failure}
        kind = kinds.pop() if len(kinds) == 1 and kinds <= TIMEOUTS else FailureKind.PARALLEL_BLOCK_FAILED
        return Ruling(failure=Failure(kind, message))
    if block.manifest:
        return Ruling(done="all providers complete")
    place = Place(block.path, block.run, folder_of(plan, block))
    if question := stuck(state):
        return Ruling(question=replace(question, at=place.cursor(0)))
    return Ruling(work=(ManifestTask(place, step.node.id),))
