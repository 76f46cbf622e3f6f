"""Where hooks are called: a point of the run, a block, a branch or a stage, and what a call depends on."""

from msgspec import Struct

from agentforge.engine.decide.requests import Ruling
from agentforge.engine.nodes import recorded_key
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Draft
from agentforge.model.hook import CALL_POINTS, Hook, HookPoint, delivery_id
from agentforge.model.place import Place, branch_folder
from agentforge.model.plan import ParallelNode, Plan, SandboxChoice, StageNode
from agentforge.model.request import Request
from agentforge.model.state import FAILED, HookCall, HookProgress, RunState, StageState, hook_host
from agentforge.model.status import TaskStatus
from agentforge.model.task import HookTask


class HookSite(Struct, frozen=True):
    """A hook point of the run, a block, a branch or a stage, with everything that a call depends on."""

    plan: Plan
    state: RunState
    point: HookPoint
    at: Cursor | None
    hooks: tuple[Hook, ...]
    subject: str = ""

    @property
    def progress(self) -> HookProgress | None:
        return self.state.hook_progress(hook_host(self.point, self.at, self.subject))

    @property
    def is_failed(self) -> bool:
        return self.point == "stage_end" and self.subject.startswith(FAILED)

    @property
    def is_last(self) -> bool:
        """Whether nothing follows for which the run could be held, or that a hook could fail."""
        return self.is_failed or self.point in ("session_end", "request")

    @property
    def status(self) -> str:
        if self.is_failed:
            return "failed"
        return "running" if self.point.endswith("_start") else "completed"

    @property
    def node(self) -> StageNode | ParallelNode | None:
        if self.at is None:
            return None
        return self.plan.stage(self.at.node_path, self.at.provider) or self.plan.by_path.get(
            self.at.node_path
        )

    @property
    def provider(self) -> str:
        """The branch, or who runs the stage; empty outside of both."""
        branch = self.at.provider if self.at else None
        return branch or (self.node.provider.type if isinstance(self.node, StageNode) else "")

    @property
    def stage(self) -> StageState | None:
        """The stage that has completed iterations here, or None."""
        known = self.state.stage(self.at.provider) if self.at else None
        is_here = known and self.at and (known.path, known.run) == (self.at.node_path, self.at.node_run)
        return known if is_here else None

    @property
    def request(self) -> Request | None:
        if self.point != "request":
            return None
        return next((request for request in self.state.requests if request.id == self.subject), None)

    def hook(self, id: str) -> Hook | None:
        return next((hook for hook in self.hooks if hook.id == id), None)

    def record(self, *facts: f.AnyFact) -> Ruling:
        return Ruling(tuple(Draft(fact, self.at) for fact in facts))


def site(plan: Plan, state: RunState, point: HookPoint, at: Cursor | None, subject: str) -> HookSite | None:
    """None if there are no hooks."""
    path = at.node_path if at and point not in CALL_POINTS else ""
    hooks = plan.hooks(point, path)
    return HookSite(plan, state, point, at, hooks, subject) if hooks else None


def new_delivery(here: HookSite, hook: Hook) -> str:
    at, node = here.at, here.node
    place = ""
    if at is not None:
        # Positions change when a run is recompiled; keys and ids stay.
        visit = recorded_key(here.plan, at.node_path, at.node_run)
        place = f"{visit}/{node.id if node else ''}/{at.node_run}/{at.iteration}/{at.provider or ''}"
    # What else tells calls at one place apart; a stage is over only once, but may fail before.
    subject = "" if here.point == "stage_end" else here.subject
    if here.is_failed:
        subject = f"{here.subject} after {here.state.seq}"
    return delivery_id(here.state.run_id, place, hook.id, here.point, subject)


def hook_task(here: HookSite, hook: Hook, call: HookCall) -> HookTask:
    at, node = here.at or Cursor("", 1, 0), here.node
    block, scope = here.state.block, ""
    if block is not None and at.provider is not None and block.path in here.plan.places:
        scope = branch_folder(here.plan, block, at.provider)
    resumption = here.state.resumption if here.point == "resume" else None
    return HookTask(
        Place(at.node_path, at.node_run, "", at.provider, scope),
        node.id if node else "",
        at.iteration,
        call.number,
        call.status is TaskStatus.ENDING,
        hook=hook,
        status=here.status,
        delivery=call.delivery,
        started_at=call.started_at,
        at=here.at,
        provider=here.provider,
        notes=here.state.note_texts,
        request=here.request,
        text=resumption.text if resumption else "",
        sandbox=_sandbox(here),
    )


def _sandbox(here: HookSite) -> SandboxChoice | None:
    """That of the stage; outside of stages, that of the stage before or after it."""
    if isinstance(here.node, StageNode):
        return here.node.sandbox
    stages = [stage for step in here.plan.steps for stage in step.stages]
    path = here.at.node_path if here.at else None
    if path in here.plan.places:
        stages = list(here.plan.places[path].stages)
    return stages[-1 if here.point == "session_end" else 0].sandbox
