"""Hooks that are functions of the program that embeds the engine: their registration and their calls."""

import asyncio
import contextvars
import re
from collections.abc import Awaitable, Callable
from inspect import isawaitable, iscoroutinefunction, signature
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentforge.adapters.httpx_webhooks import HttpxWebhooks
from agentforge.definition.compiler import INLINE
from agentforge.model.cursor import Cursor
from agentforge.model.errors import HookMissing, InvalidRequest
from agentforge.model.hook import CALL_POINTS, POINTS, Hook, HookPoint, HookResult, OnFailure, OnLost
from agentforge.model.layout import RunLayout
from agentforge.model.names import session_argument
from agentforge.model.place import folder_of
from agentforge.model.plan import Plan
from agentforge.model.plan_limits import MAX_HOOKS, MAX_SECONDS, MAX_YAML_HOOKS
from agentforge.model.request import Request
from agentforge.model.result import Result
from agentforge.model.state import RunSettings, RunState
from agentforge.model.task import HookTask
from agentforge.ports.host import Clock
from agentforge.runtime.journal import Journal
from agentforge.runtime.tasks.call import Calls, TaskContext
from agentforge.runtime.tasks.hook import HookCalls, HookPerformer
from agentforge.system import files
from agentforge.system.work_limit import call_within

OF_STAGES = frozenset(POINTS) - {"session_start", "session_end", *CALL_POINTS}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")

MAX_PROGRESS = 64 * 1024
"""How much of the end of a progress file a hook is given."""

HookFunction = Callable[..., Any]
"""Takes a HookContext, and at `resume` also the person's text. Returns a HookResult or None; a coroutine
function is awaited."""


class HookContext(Struct, frozen=True, kw_only=True):
    """What a hook is told about the run."""

    session: str
    point: HookPoint
    state: RunState
    """The state of the run when the hook is called."""
    stage: str = ""
    """The id of the stage or block; empty at the points of the run as a whole."""
    iteration: int = 0
    provider: str = ""
    """That of the stage; inside a parallel block, the branch."""
    status: str = "completed"
    """As in conditions: at `stage_end` after a failure `failed`."""
    place: Cursor | None = None
    result: Result | None = None
    """Of the latest iteration of the stage or branch."""
    context: str = ""
    """The notes that people and hooks have added so far."""
    progress: str = ""
    """The end of the stage's progress file."""
    request: Request | None = None
    """At `request`: what is asked."""
    delivery: str = ""
    """Identifies the call: the same if it is repeated after a crash."""
    attempt: int = 1


class HookRegistry:
    """The hooks of one engine."""

    def __init__(self, errors: OnFailure = "continue") -> None:
        """`errors`: what follows an exception in a hook, or a hook that takes too long."""
        if errors not in ("continue", "pause", "fail"):
            raise InvalidRequest(
                f"hook_errors must be one of continue, pause, fail, got {errors!r}",
                hint='pass `hook_errors="pause"`, for example',
            )
        self._errors = errors
        self._hooks: dict[str, Hook] = {}
        self._functions: dict[str, HookFunction] = {}

    def add(
        self,
        point: HookPoint,
        function: HookFunction,
        *,
        stage: str | None = None,
        name: str | None = None,
        timeout: float | None = None,
        on_lost: OnLost = "repeat",
    ) -> None:
        id = f"{point}-{_name(function, name)}"
        if id in self._hooks:
            raise InvalidRequest(f"hook {id!r} is already registered", hint="pass another `name`")
        _check_arguments(id, function, 2 if point == "resume" else 1)
        if stage is not None and point not in OF_STAGES:
            others = ", ".join(sorted(OF_STAGES))
            raise InvalidRequest(
                f"{point} has no stage", hint=f"register hook {id!r} without `stage`, or at {others}"
            )
        if stage is not None and not isinstance(stage, str):
            raise InvalidRequest(
                f"the stage of hook {id!r} must be the id of a node", hint="pass the id as a string"
            )
        if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout <= MAX_SECONDS):
            raise InvalidRequest(
                f"the timeout of hook {id!r} must be positive, at most a year", hint="pass seconds, or None"
            )
        if len(self._hooks) >= MAX_HOOKS - MAX_YAML_HOOKS:
            raise InvalidRequest(
                f"an engine can have at most {len(self._hooks)} hooks",
                hint="call several functions from one hook",
            )
        if on_lost not in ("repeat", "pause"):
            raise InvalidRequest(
                f"on_lost of hook {id!r} must be repeat or pause, got {on_lost!r}",
                hint='pass `on_lost="repeat"` or `on_lost="pause"`',
            )
        self._functions[id] = function
        self._hooks[id] = Hook(
            id,
            point,
            "call",
            stage=stage,
            timeout=timeout,
            on_timeout=self._errors,
            on_failure=self._errors,
            on_lost=on_lost,
        )

    def pinned(self, plan: Plan) -> Plan:
        """The plan with the hooks that apply to it, after its own."""
        if not self._hooks:
            return plan
        ids = {step.node.id for step in plan.steps}
        ids |= {stage.id for step in plan.steps for stage in step.stages}
        found = [hook for hook in self._hooks.values() if hook.stage is None or hook.stage in ids]
        for id in sorted({hook.id for hook in plan.all_hooks} & {hook.id for hook in found}):
            raise InvalidRequest(f"the pipeline already has a hook {id!r}", hint="pass another `name`")
        info = plan.pipeline
        return replace(plan, pipeline=replace(info, hooks=(*info.hooks, *found))) if found else plan

    def missing(self, plan: Plan, settings: RunSettings) -> tuple[str, ...]:
        """The functions that the run calls and this engine lacks. A replay calls none."""
        if settings.replay is not None:
            return ()
        return tuple(hook for hook in plan.program_hooks if hook not in self._functions)

    def refuse_missing(self, plan: Plan, settings: RunSettings) -> None:
        if missing := self.missing(plan, settings):
            session, named = plan.session.name, ", ".join(missing)
            hint = "continue it with the program that registers them"
            if plan.source.path != INLINE:
                command = f"agentforge resume --recompile {session_argument(session)}"
                hint = f"{hint}; `{command}` continues without them"
            raise HookMissing(
                f"session {session!r} needs hooks that this program doesn't have: {named}", hint=hint
            )

    def performer(
        self, context: TaskContext, journal: Journal, clock: Clock, scripts: Calls
    ) -> HookPerformer:
        """Calls the hooks of a run."""
        calls: HookCalls = {}
        if self._functions and journal.plan.program_hooks:
            layout = context.layout
            calls = {id: _call(function, journal, layout) for id, function in self._functions.items()}
        return HookPerformer(
            context,
            journal.model.history,
            clock,
            scripts=scripts,
            webhooks=HttpxWebhooks(),
            calls=calls,
        )


def _name(function: HookFunction, given: str | None) -> str:
    if not callable(function):
        raise InvalidRequest(f"a hook must be a function, got {type(function).__name__}", hint="pass one")
    name = getattr(function, "__name__", "") if given is None else given
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        what = f"{name!r} can't be the name of a hook" if name else "the hook has no name"
        raise InvalidRequest(what, hint="pass `name`: letters, digits, `_`, `-` and `.`")
    return name


def _check_arguments(id: str, function: HookFunction, count: int) -> None:
    try:
        takes = signature(function)
    except (TypeError, ValueError):
        return  # A function of an extension module may not tell.
    try:
        takes.bind(*(None,) * count)
    except TypeError as error:
        what = "the HookContext" if count == 1 else "the HookContext and the person's text"
        raise InvalidRequest(
            f"hook {id!r} must take {what}: {error}", hint="change its parameters"
        ) from error


# -- calls


def _context(task: HookTask, journal: Journal, layout: RunLayout) -> HookContext:
    at, history = task.at, journal.model.history
    # At its start, a branch has no result of its own: the latest one is of an earlier visit of the block.
    has_result = at is not None and task.hook.point != "parallel_provider_start"
    path = _progress_file(at, journal, layout)
    progress = files.read_part(path, -MAX_PROGRESS, MAX_PROGRESS)[0] if path else b""
    return HookContext(
        session=journal.session,
        point=task.hook.point,
        state=journal.state,
        stage=task.name,
        iteration=task.iteration,
        provider=task.provider,
        status=task.status,
        place=at,
        result=history.result(at) if at and has_result else None,
        context="\n".join(task.notes),
        progress=progress.decode("utf-8", "replace"),
        request=task.request,
        delivery=task.delivery,
        attempt=task.attempt,
    )


def _progress_file(at: Cursor | None, journal: Journal, layout: RunLayout) -> str | None:
    plan, state = journal.plan, journal.state
    if plan.mode == "loop":
        return layout.session_progress
    if at is None:
        return None
    if at.provider is not None and state.block is not None:
        scope = f"{folder_of(plan, state.block)}/providers/{at.provider}"
        return layout.progress(plan.mode, "", scope)
    stage = state.node
    is_here = stage is not None and (stage.path, stage.run) == (at.node_path, at.node_run)
    return layout.progress(plan.mode, folder_of(plan, stage)) if stage and is_here else None


def _call(
    function: HookFunction, journal: Journal, layout: RunLayout
) -> Callable[[HookTask], Awaitable[HookResult]]:
    async def call(task: HookTask) -> HookResult:
        told = _context(task, journal, layout)
        arguments = (told, task.text) if task.hook.point == "resume" else (told,)
        if iscoroutinefunction(function):
            found = await _awaited(function(*arguments))
        else:
            # In a thread, as it may block, but with the context variables of the program.
            run = contextvars.copy_context().run
            found = await call_within(None, lambda: run(_contained, function, *arguments))
            if isawaitable(found):
                found = await _awaited(found)
        return HookResult() if found is None else found

    return call


def _contained(function: HookFunction, *arguments: object) -> Any:
    """Call the function in a thread: nothing that it raises may get lost there."""
    try:
        return function(*arguments)
    except (SystemExit, KeyboardInterrupt, StopIteration, asyncio.CancelledError) as error:
        raise RuntimeError(f"it raised {type(error).__name__}") from error


async def _awaited(found: Awaitable[Any]) -> Any:
    """Await it as a task of its own, so that it can't cancel the engine."""
    task = asyncio.ensure_future(_shielded(found))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.add_done_callback(_ignored)
        task.cancel()
        raise
    if task.cancelled():
        raise RuntimeError("it was cancelled")
    return task.result()


def _ignored(task: "asyncio.Future[Any]") -> None:
    """The result of a hook that was stopped is not needed."""
    if not task.cancelled():
        task.exception()


async def _shielded(found: Awaitable[Any]) -> Any:
    try:
        return await found
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"it raised {type(error).__name__}") from error
