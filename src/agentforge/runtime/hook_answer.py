"""What a hook answers: a service or a script writes it, a function returns it, or a cassette has it.

It is untrusted text, which is cut to what the log and the context can hold.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.nodes import recorded_key
from agentforge.engine.normalise import without_escapes
from agentforge.model import facts as f
from agentforge.model.errors import NOT_JSON
from agentforge.model.failure import short_message
from agentforge.model.hook import CALL_POINTS, MAX_CONTEXT, HookOutcome, HookResult
from agentforge.model.plan import Plan
from agentforge.model.secrets import Redactor
from agentforge.model.task import HookTask

if TYPE_CHECKING:
    from agentforge.model.cassette import Cassette, Exchange

TRUNCATED = "\n(truncated)"
MAX_ANSWER = 64 * 1024
"""Bytes of an object; the output of a script that has more was cut."""
KEYS = frozenset({"action", "context"})
"""An object with one of them is an answer; everything else is text for the context."""


WrittenAction = Literal["continue", "pause", "abort", "restart_stage", "modify_context"]


class WrittenAnswer(Struct, frozen=True):
    action: WrittenAction | None = None
    reason: str | None = None
    context: str | None = None


def read_answer(text: str) -> HookResult:
    """Raises ValueError with what is wrong."""
    if text.lstrip().startswith("{") and len(text.encode("utf-8", "replace")) > MAX_ANSWER:
        raise ValueError("its answer is an object of more than 64 KB")
    try:
        found = msgspec.json.decode(text)
    except NOT_JSON:
        found = None
    if not isinstance(found, dict) or not KEYS & found.keys():
        text = text.strip()
        return HookResult("modify_context" if text else "continue", context=text)
    _check_action(found.get("action"), get_args(WrittenAction))
    try:
        written = msgspec.convert(found, WrittenAnswer)
    except msgspec.ValidationError as error:
        raise ValueError(f"its answer is not valid: {error}") from error
    context = written.context or ""
    action = written.action or ("modify_context" if context else "continue")
    return HookResult(action, written.reason or "", context)


def _check_action(action: object, known: tuple[str, ...]) -> None:
    if isinstance(action, str) and action not in known:
        raise ValueError(f"its answer has the unknown action {action!r}; use {', '.join(known)}")


def checked_result(result: object) -> HookResult:
    """What a function returned. Raises ValueError with what is wrong."""
    if not isinstance(result, HookResult):
        raise ValueError(f"it returned {type(result).__name__} instead of a HookResult")  # noqa: TRY004
    _check_action(result.action, get_args(HookOutcome))
    try:
        return msgspec.convert(msgspec.to_builtins(result), HookResult)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(f"its result is not valid: {error}") from error


def as_recorded(result: HookResult, redactor: Redactor) -> HookResult:
    """Without secrets and escape codes, and cut to size."""
    context = _clean(result.context, redactor)
    if len(encoded := context.encode()) > MAX_CONTEXT:
        context = encoded[: MAX_CONTEXT - len(TRUNCATED)].decode("utf-8", "ignore") + TRUNCATED
    return replace(
        result,
        reason=short_message(_clean(result.reason, redactor)),
        context=context,
        answer=short_message(_clean(result.answer, redactor)),
        text=short_message(_clean(result.text, redactor)),
    )


def _clean(text: str, redactor: Redactor) -> str:
    """As an environment variable of a script can hold it, and without codes that a JSON string escaped."""
    plain = without_escapes(text.encode("utf-8", "replace")).decode("utf-8", "replace")
    return redactor.text(plain.replace("\0", "\N{REPLACEMENT CHARACTER}"))


PlayedOutcome = f.HookCompleted | f.HookFailed | f.HookTimedOut
_Site = tuple[str, str, str, str, int]
"""The hook, and the node, branch, stage of the branch and iteration at which it is called."""


class PlayedHooks:
    """The recorded answers of hooks: a replay calls no service, runs no script and calls no function."""

    def __init__(self, plan: Plan, load: "Callable[[], Cassette]") -> None:
        self._plan = plan
        self._load = load
        self._recorded: dict[_Site, dict[str, list[Exchange]]] | None = None
        """The calls at each place, by delivery, in the order in which they began."""
        self._calls: dict[_Site, list[str]] = {}
        """The deliveries of this run, in the same order."""

    def outcome(self, task: HookTask) -> PlayedOutcome:
        found = self._find(task)
        if found is not None:
            return replace(found, **task.names)
        if task.hook.point in CALL_POINTS:
            # People resume a replay and answer its requests for reasons of their own.
            return f.HookCompleted(**task.names)
        where = f"iteration {task.iteration} of stage {task.name!r}" if task.name else "the run"
        return f.HookFailed(**task.names, message=f"the cassette has no answer of this hook at {where}")

    def _find(self, task: HookTask) -> PlayedOutcome | None:
        from agentforge.engine.rehearsal.rehearsed_run import outcome_of  # Few runs are replays.

        node, branch = recorded_key(self._plan, task.place.path, task.place.run), task.place.branch or ""
        site = (task.hook.id, node, branch, task.name if branch else "", task.iteration)
        calls = self._calls.setdefault(site, [])
        if task.delivery not in calls:
            calls.append(task.delivery)
        if self._recorded is None:
            self._recorded = _by_site(self._load().exchanges)
        # Deliveries have other names in a replay: the n-th of this run at a place is the n-th recorded there.
        recorded = list(self._recorded.get(site, {}).values())[calls.index(task.delivery) :]
        for exchange in recorded[0] if recorded else ():
            if exchange.attempt in (None, task.attempt):
                try:
                    fact = outcome_of(exchange)
                except ValueError:
                    return None
                return fact if isinstance(fact, PlayedOutcome) else None
        return None


def _by_site(exchanges: "Iterable[Exchange]") -> "dict[_Site, dict[str, list[Exchange]]]":
    found: dict[_Site, dict[str, list[Exchange]]] = {}
    for exchange in exchanges:
        if (hook := exchange.hook) is not None:
            stage = exchange.stage if exchange.branch else ""
            site = (hook.id, exchange.node, exchange.branch, stage, exchange.iteration)
            found.setdefault(site, {}).setdefault(hook.delivery, []).append(exchange)
    return found
