"""Keeps a task to its budget: decides before each request whether it fits, and how long its answer may be."""

from bisect import bisect_left
from collections.abc import Sequence

from pydantic_ai import exceptions as e
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.usage import RequestUsage, RunUsage

from agentforge.model.spending import Amount, Unit, shown
from agentforge.tool_loop.prices import cost_of, spent_usd
from agentforge.tool_loop.task import ModelTask

# A request must fit at its worst: as many tokens as it can have, and the longest answer that it allows. What
# the model was sent before is counted by the server, with its latest answer; of what is new, no byte is more
# than a token. What a request used that broke off is unknown: it counts at its worst, too.

LONGEST, SHORTEST = 16_384, 1_024
"""Tokens of an answer, unless `max_tokens` is set: the longest that is asked for, and the shortest that is
worth a request."""


class BudgetUsedUp(Exception):
    """What is left might not be enough for another request."""


class Budget:
    def __init__(self, task: ModelTask, used: RunUsage) -> None:
        self._task = task
        self._used = used
        """That of the conversation, which counts each answer."""
        is_priced = cost_of(task.endpoint, task.price, 1, 1) is not None
        self._caps: list[tuple[Unit, float]] = [
            (unit, cap) for unit, cap in (task.budget or Amount()).known if unit == "tokens" or is_priced
        ]
        self._sent: tuple[int, int] | None = None
        """The tokens of the request in flight, and the most of its answer."""
        self.is_short = False
        """Whether the budget makes the answer shorter than it could be."""

    def allow(self, messages: Sequence[ModelMessage], besides: int) -> int | None:
        """How many tokens the answer to the messages may have, None: as many as the model can. Raises
        BudgetUsedUp. `besides`: the bytes of what else a request has."""
        wanted = self._task.max_tokens
        if not self._caps:
            return wanted
        size, longest = _tokens(messages, besides), wanted or LONGEST
        answers = range(1, longest + 1)
        fitting = bisect_left(answers, True, key=lambda answer: not self._fits(size, answer))
        if fitting < (wanted or SHORTEST):
            raise BudgetUsedUp(self._why(size, wanted or SHORTEST))
        self._sent, self.is_short = (size, fitting), fitting < longest
        return fitting

    def answered(self, used: RequestUsage) -> None:
        """The answer is complete; what it used is counted, if the server says it."""
        if used.input_tokens and (used.cost is not None or self._task.price or not self._has("cost_usd")):
            self._sent = None
        self.lost()

    def failed(self, error: Exception) -> None:
        """A request failed, or something between two of them."""
        if isinstance(error, e.ModelHTTPError) or getattr(error, "phase", "") in ("connect", "pool"):
            self._sent = None  # No model has seen it.
        self.lost()

    def lost(self) -> None:
        if self._sent is not None:
            cost = cost_of(self._task.endpoint, self._task.price, *self._sent)
            self._used.incr(RequestUsage(input_tokens=self._sent[0], output_tokens=self._sent[1], cost=cost))
        self._sent = None

    def _has(self, unit: Unit) -> bool:
        return unit in dict(self._caps)

    def _fits(self, size: int, answer: int) -> bool:
        return all(self._spent(unit) + self._worst(unit, size, answer) <= cap for unit, cap in self._caps)

    def _spent(self, unit: Unit) -> float:
        if unit == "tokens":
            return self._used.input_tokens + self._used.output_tokens
        return spent_usd(self._task, self._used) or 0.0

    def _worst(self, unit: Unit, size: int, answer: int) -> float:
        if unit == "tokens":
            return size + answer
        return float(cost_of(self._task.endpoint, self._task.price, size, answer) or 0)

    def _why(self, size: int, answer: int) -> str:
        unit, cap = next(
            (unit, cap)
            for unit, cap in self._caps
            if self._spent(unit) + self._worst(unit, size, answer) > cap
        )
        spent, needed = (shown(unit, value) for value in (self._spent(unit), self._worst(unit, size, answer)))
        return f"{spent} of {shown(unit, cap)} spent, and the next request may need {needed}"


def _tokens(messages: Sequence[ModelMessage], besides: int) -> int:
    """As many as the messages can be."""
    for place in range(len(messages) - 1, -1, -1):
        answer = messages[place]
        if isinstance(answer, ModelResponse) and answer.usage.input_tokens:
            counted = answer.usage.input_tokens + answer.usage.output_tokens
            return counted + _bytes(messages[place + 1 :])
    return besides + _bytes(messages)


def _bytes(messages: Sequence[ModelMessage]) -> int:
    return len(ModelMessagesTypeAdapter.dump_json(list(messages)))
