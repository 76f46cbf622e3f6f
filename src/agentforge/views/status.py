"""The data of `status`: one record, which is also its JSON output."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from agentforge.engine.nodes import siblings
from agentforge.model.artifact import ItemAt
from agentforge.model.check import BASELINE
from agentforge.model.delivery import DeliveredWork
from agentforge.model.failure import StopReason
from agentforge.model.names import session_argument
from agentforge.model.plan import Items, Mode, Plan, ProviderChoice, StageNode, Step
from agentforge.model.request import Request
from agentforge.model.spending import Spending
from agentforge.model.state import RefusedFile, RunState, StageState, Waiver, position_of
from agentforge.model.status import RunStatus, TaskStatus
from agentforge.ports.event_log import BufferHealth
from agentforge.views.answers import commands_of, inspect_command
from agentforge.views.hook_calls import HookCallView, hook_calls
from agentforge.views.results import RunInfo, duration
from agentforge.views.run_model import Health
from agentforge.views.spending import CapView, cap_views, unenforced
from agentforge.views.stage_progress import (
    StageProgress,
    current_path,
    current_step,
    order,
    stage_progress,
)
from agentforge.views.text import shown_reason
from agentforge.views.visits import StageVisit

RESUMABLE = frozenset({"paused", "failed", "interrupted", "awaiting_approval"})


class NodeView(Struct, frozen=True):
    path: str
    id: str
    ref: str
    index: int
    count: int
    visit: int
    provider: str
    model: str


class LogStatus(Struct, frozen=True):
    """The event buffer's health, as visible from outside the engine's process."""

    events_flushed: int
    """Events in the log."""
    behind: int | None
    """Events not yet in state.json; None without a usable state.json."""
    buffer: BufferHealth | None = None
    """As last reported by the engine."""
    damage: tuple[str, ...] = ()


class FailureStatus(Struct, frozen=True):
    type: str
    message: str
    last_completed_iteration: int


class PauseStatus(Struct, frozen=True):
    reason: str
    at: datetime | None
    requests: tuple[Request, ...]


class WaitStatus(Struct, frozen=True):
    """A stage that waits for a retry or for a limit to reset."""

    stage: str
    provider: str
    until: datetime
    message: str


class RestStatus(Struct, frozen=True):
    """A provider of a stage's chain that is currently unavailable."""

    stage: str
    provider: str
    until: datetime | None
    message: str


class RunningCheck(Struct, frozen=True):
    check: str
    since: datetime


class CycleStatus(Struct, frozen=True):
    """A route back to an earlier node, while the run is on the way between them."""

    stage: str
    to: str
    """The node that the stage sent the work back to."""
    cycle: int
    """The current pass."""
    of: int


class StatusView(Struct, frozen=True):
    session: str
    status: str
    mode: Mode
    pipeline: str
    source: str
    node: NodeView | None
    stages: tuple[StageProgress, ...]
    iteration: int
    iteration_completed: int
    iterations_max: int
    """0 of a stage over items."""
    iterations_asked: int
    """How many before `iteration` asked something: they don't count against the maximum."""
    attempt: int
    item: ItemAt | None
    """The item that the current stage works on."""
    started_at: datetime
    completed_at: datetime | None
    last_event: str
    last_event_at: datetime | None
    health: Health
    errors: int
    judge_failures: int
    judge_error: str | None
    """Why the judge failed the last time."""
    duration_seconds: float
    """With the time in which it waited."""
    waited_seconds: float
    """How long it was stopped until a person continued it."""
    cost_usd: float | None
    """None if no agent reported its cost."""
    unpriced_models: tuple[str, ...]
    """Models whose cost is unknown, and not in `cost_usd`."""
    input_tokens: int
    output_tokens: int
    driver_pid: int | None
    run_dir: str
    log: LogStatus
    user_request: str | None = None
    """What its user wants, if anything."""
    completion_reason: str | None = None
    failure: FailureStatus | None = None
    pause: PauseStatus | None = None
    resume_command: str | None = None
    program_hooks: tuple[str, ...] = ()
    """The hooks that are functions of a program: only that program continues the run."""
    waiting: tuple[WaitStatus, ...] = ()
    hooks: tuple[HookCallView, ...] = ()
    """The hooks that it is calling, or that wait for a person."""
    resting: tuple[RestStatus, ...] = ()
    requests: tuple[Request, ...] = ()
    """Open requests, even while the rest of the run continues."""
    caps: tuple[CapView, ...] = ()
    """What it may spend, those of the whole run first."""
    unenforced: tuple[str, ...] = ()
    """Stages below a cap that hold because of a figure which their provider doesn't keep to."""
    assumed_usd: float = 0.0
    """What counts as spent for attempts whose cost is unknown."""
    assumed_tokens: int = 0
    overruns: int = 0
    """How many attempts used more than they had reserved."""
    overrun_usd: float = 0.0
    wake_at: datetime | None = None
    """When a run that waits for people continues without an answer."""
    answer_commands: tuple[str, ...] = ()
    inspect_command: str | None = None
    refused: tuple[RefusedFile, ...] = ()
    """Files in the run directory that couldn't be used: the latest ones."""
    stopped: StopReason | None = None
    """Why its last engine, in the background, stopped without recording the end of the run."""
    running_check: RunningCheck | None = None
    visits: tuple[StageVisit, ...] = ()
    """Of each stage with checks or a verdict, the latest visit."""
    cycles: tuple[CycleStatus, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    """Checks that people skipped."""
    delivered: DeliveredWork | None = None
    unused: dict[str, str] = {}
    """Checks that are not used in the run: why they have no baseline, by their names."""
    answered: bool = False
    """Whether the run waits although a request was answered, or its time is over."""
    unanswered: tuple[str, ...] = ()
    """Ids of the requests that a person still has to answer although it was answered."""

    @property
    def spending(self) -> Spending:
        return Spending(
            self.cost_usd or 0.0,
            self.input_tokens,
            self.output_tokens,
            self.unpriced_models,
            self.assumed_usd,
            self.assumed_tokens,
            self.overruns,
            self.overrun_usd,
        )


def running_check(state: RunState) -> RunningCheck | None:
    """The check that runs now; those of a block don't exist."""
    call = state.node.calls.get("check") if state.node else None
    return RunningCheck(call.about, call.started_at) if call and call.in_flight else None


def status_view(info: RunInfo, now: datetime, program: str = "agentforge") -> StatusView:
    """`program`: as it is called in commands."""
    plan, state, summary, session, status = info.plan, info.state, info.summary, info.session, info.status
    # With commands for the others, a person would answer a second time.
    asked = [one for one in state.open_requests if not info.answered or one.id in info.unanswered]
    step, stages = current_step(plan, state), stage_progress(plan, state)
    here = stages[plan.steps.index(step)] if step else None
    stage = step.node if step and isinstance(step.node, StageNode) else None
    is_over_items = stage is not None and isinstance(stage.termination, Items)
    at, failed = state.node, state.failure
    done = at.completed if at else here.completed if here else 0
    hooks = needed_hooks(plan, state) if status in RESUMABLE else ()
    behind = None if info.state_file_seq is None else max(0, state.seq - info.state_file_seq)
    resume = None if hooks else resume_command_of(session, state, status, program, answered=info.answered)
    return StatusView(
        session=session,
        status=status,
        mode=plan.mode,
        pipeline=plan.pipeline.name,
        source=plan.source.path,
        node=_node(plan, state, step) if step else None,
        stages=stages,
        iteration=state.iteration.number if state.iteration else done,
        iteration_completed=done,
        iterations_asked=at.asked_before if at else 0,
        iterations_max=here.total if here and not is_over_items else 0,
        attempt=state.attempt.number if state.attempt else 0,
        item=here.item if here else None,
        started_at=state.started_at,
        completed_at=state.completed_at,
        last_event=summary.last_type,
        last_event_at=summary.last_at,
        health=info.health,
        errors=summary.errors,
        judge_failures=summary.judge_failures,
        judge_error=summary.judge_error or None,
        duration_seconds=round(duration(state, status, now), 3),
        waited_seconds=round(summary.waited_seconds, 3),
        cost_usd=state.spending.cost_usd or None,
        unpriced_models=state.spending.unpriced,
        input_tokens=state.spending.input_tokens,
        output_tokens=state.spending.output_tokens,
        driver_pid=info.driver_pid,
        run_dir=info.run_dir,
        log=LogStatus(
            summary.events,
            behind,
            info.buffer,
            tuple(f"line {damage.line}: {damage.reason}" for damage in info.damage),
        ),
        user_request=state.user_request.text if state.user_request else None,
        completion_reason=state.completion_reason and shown_reason(state.completion_reason),
        failure=FailureStatus(failed.kind.value, failed.message, done) if failed else None,
        pause=PauseStatus(state.pause_reason or "", state.paused_at, state.open_requests)
        if state.status in (RunStatus.PAUSED, RunStatus.AWAITING_APPROVAL)
        else None,
        resume_command=resume,
        program_hooks=hooks,
        waiting=tuple(waiting(plan, state)) if state.status is RunStatus.RUNNING else (),
        hooks=tuple(hook_calls(plan, state)),
        resting=tuple(
            RestStatus(stage.id, stage.chosen(known.choice).type, known.until, known.message)
            for stage, in_progress in _stages(plan, state)
            for known in in_progress.unavailable
            if known.until is None or known.until > now
        ),
        requests=state.open_requests,
        caps=cap_views(plan, state),
        unenforced=tuple(dict.fromkeys(unenforced(plan))),
        assumed_usd=state.spending.assumed_usd,
        assumed_tokens=state.spending.assumed_tokens,
        overruns=state.spending.overruns,
        overrun_usd=state.spending.overrun_usd,
        wake_at=state.wake_at,
        answer_commands=tuple(
            command
            for one in asked
            for command in commands_of(session, one, program, only=len(state.open_requests) == 1)
        ),
        inspect_command=inspect_command(session, asked, program),
        refused=state.refused,
        running_check=running_check(state),
        stopped=info.stopped,
        visits=summary.visits,
        cycles=tuple(_cycles(plan, state)),
        waivers=state.waivers,
        delivered=state.delivered,
        unused={
            key.partition(BASELINE)[0]: one.unusable for key, one in state.baselines.items() if one.unusable
        },
        answered=info.answered,
        unanswered=info.unanswered,
    )


def _cycles(plan: Plan, state: RunState) -> Iterator[CycleStatus]:
    """Those that the run is in, not those that it has left."""
    for key, count in state.cycles.items():
        # `path@branch>target`, so that each route of each branch has its own count.
        place, _, target = key.partition(">")
        path, _, branch = place.partition("@")
        stage = plan.stage(path, branch or None)
        if stage is not None and _is_between(state, target, path, branch or None):
            ids = siblings(plan, path, branch or None)
            to = ids[min(position_of(target), len(ids) - 1)]
            yield CycleStatus(stage.id, to, count.taken + 1, count.limit)


def _is_between(state: RunState, first: str, last: str, branch: str | None) -> bool:
    """Whether the run, or a branch, is at one of these nodes or at one between them."""
    stage = state.stage(branch) if branch else None
    here = stage.path if stage else current_path(state) if branch is None else None
    if here is None:
        return False
    # A route is taken between nodes of one pipeline; the run may be deeper, inside one of them.
    level = order(here)[: last.count(".") + 1]
    return order(first) <= level <= order(last)


def needed_hooks(plan: Plan, state: RunState) -> tuple[str, ...]:
    """The hooks that only the program has that started the run. A replay calls none."""
    return plan.program_hooks if state.settings.replay is None else ()


def resume_command(
    session: str,
    status: str,
    program: str = "agentforge",
    *,
    by_person: bool = False,
    requests: Sequence[Request] = (),
    reason: str | None = None,
) -> str | None:
    """The command that continues a run in that status, or None; `by_person`: never recover automatically.
    `requests`: the open ones. `resume` doesn't answer approvals and questions. `reason`: why it is paused."""
    if status not in RESUMABLE:
        return None
    asks = status == "awaiting_approval" or reason in {request.reason for request in requests}
    if asks and not any(request.resumes_with for request in requests):
        return None
    command = "recover" if status == "interrupted" and not by_person else "resume"
    # A name that begins with a dash would read as an option.
    return f"{program} {command} {session_argument(session)}"


def recover_command(session: str, program: str = "agentforge") -> str:
    return f"{program} recover {session_argument(session)}"


def resume_command_of(
    session: str, state: RunState, status: str, program: str = "agentforge", *, answered: bool = False
) -> str | None:
    """The same, of a run in that state. Runs of the shell engine and archived ones are not recovered.
    `answered`: it waits although a request was answered."""
    if answered:
        return recover_command(session, program)
    requests, reason = state.open_requests, state.pause_reason
    by_person = not state.run_id or session != state.session
    return resume_command(session, status, program, by_person=by_person, requests=requests, reason=reason)


def _node(plan: Plan, state: RunState, step: Step) -> NodeView:
    stage = step.node if isinstance(step.node, StageNode) else None
    at = state.node or state.block
    return NodeView(
        path=step.path,
        id=step.node.id,
        ref=stage.stage if stage else "",
        index=plan.steps.index(step),
        count=len(plan.steps),
        visit=at.run if at else state.visits.get(step.path, 0) or 1,
        provider=_provider(state, stage).type
        if stage
        else ", ".join(sorted({s.provider.type for s in step.stages})),
        model=_provider(state, stage).model if stage else "",
    )


def _provider(state: RunState, stage: StageNode) -> ProviderChoice:
    """The provider of the current or last attempt, else the first of the chain."""
    return stage.chosen(state.attempt.choice if state.attempt else 0)


def waiting(plan: Plan, state: RunState) -> Iterator[WaitStatus]:
    for stage, at in _stages(plan, state):
        attempt = at.iteration.attempt if at.iteration else None
        if at.retry_due is not None:
            yield WaitStatus(stage.id, "checks", at.retry_due, "a check had no result")
        if attempt is not None and attempt.status is TaskStatus.WAITING and attempt.due_at is not None:
            choice, message = attempt.choice, attempt.failure.message if attempt.failure else ""
            for known in at.unavailable:
                if known.until == attempt.due_at and known.limited:
                    # Another provider's limit may reset first.
                    choice, message = known.choice, known.message
            yield WaitStatus(stage.id, stage.chosen(choice).type, attempt.due_at, message)


def _stages(plan: Plan, state: RunState) -> Iterator[tuple[StageNode, StageState]]:
    """The stages in progress that are in the plan."""
    for provider, at in state.under_way():
        stage = plan.stage(at.path, provider)
        if stage is not None:
            yield stage, at
