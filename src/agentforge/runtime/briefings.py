"""Chooses what an iteration is told of the run, within its budget of tokens: reads what the views need for
it, and fits it into the prompt."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.checks.feedback import size
from agentforge.model.artifact import ESTIMATOR, ContextUse
from agentforge.model.errors import AgentForgeError
from agentforge.model.facts import ErrorOccurred
from agentforge.model.failure import FailureKind
from agentforge.model.layout import RunLayout, is_inside
from agentforge.model.plan import StageNode, TokenBudget
from agentforge.model.request import AnsweredQuestion, Feedback, Note
from agentforge.model.task import AgentTask, PrepareTask
from agentforge.ports.host import NoTree, Trees
from agentforge.ports.provider import Provider, SendsMore
from agentforge.system import files
from agentforge.views.artifacts import IterationInput
from agentforge.views.briefing import MAX_VISITS, BriefingAt, BriefingFiles, briefing_parts
from agentforge.views.record import RunRecord
from agentforge.views.token_budget import (
    BYTES_PER_TOKEN,
    Part,
    briefing_text,
    fitted,
    tokens_of_bytes,
)

MAX_OUTPUT_BYTES = 1024 * 1024
"""Of one output; the engine writes no longer ones."""
MAX_PATCH_BYTES = 256 * 1024
MAX_CHANGED = 200
"""Changed files of one visit."""
MAX_COMPARED = 2 * MAX_VISITS
"""Visits whose changed files are remembered."""
FEEDBACK_RANK, ANSWER_RANK, NOTE_RANK = 1, 2, 3


# The prompt is measured by filling it in, instead of adding up what its parts should need: a variable may
# occur twice, and a quotation has an introduction. If it is too long, the room shrinks by what it is
# over, but at most by half, and the parts are fitted again. This ends, as fewer are kept each time: at last
# only what is never left out remains, which fits or fails the iteration. That is before an agent starts. Cut
# by a model, a prompt would lose its end, silently.


class Told(Struct, frozen=True):
    """What a prompt says of the run, beside what never changes in it."""

    feedback: Feedback | None = None
    answers: tuple[AnsweredQuestion, ...] = ()
    notes: tuple[Note, ...] = ()
    briefing: str = ""
    use: ContextUse | None = None
    prompt: str = ""
    """With all of this, if it is known."""


class Briefings:
    def __init__(
        self,
        layout: RunLayout,
        record: Callable[[], RunRecord],
        trees: Trees,
        sent: Callable[[StageNode], int],
        patch: Callable[[str, str], bytes] | None = None,
    ) -> None:
        """`sent`: how many bytes the provider of a stage sends beside the prompt. `patch`: what differs
        between two trees, empty if that can't be read; None: there is nothing to read it with."""
        self._read_patch = patch
        self._layout = layout
        self._record = record
        self._trees = trees
        self._sent = sent
        self._compared: dict[tuple[str, str], tuple[str, ...]] = {}
        """Of two trees, whose ids are those of their content: what differs never changes."""

    def fitted(
        self,
        said: Told,
        task: PrepareTask | AgentTask,
        given: IterationInput,
        template: str,
        filled: Callable[[Told], str],
    ) -> Told | ErrorOccurred:
        """As much as the budget allows. `filled` makes the prompt of it."""
        node, sent = task.node, self._sent(task.node)
        strategy, budget = node.context_strategy, node.tokens or TokenBudget()
        parts = self._parts(task, given)
        if budget.limit is None:
            told = replace(said, briefing=briefing_text(parts))
            text = filled(told)
            used = ContextUse(strategy, tokens_of_bytes(size(text) + sent), estimator=ESTIMATOR)
            return replace(told, prompt=text, use=used)
        parts += tuple(part for part in _said_parts(said) if f"${{{part.variable}}}" in template)
        room = most = budget.limit * BYTES_PER_TOKEN - sent
        least = sum(part.size for part in parts if part.rank == 0)
        while True:
            fit = fitted(parts, room)
            told = _told(said, fit.kept, fit.missing)
            text = filled(told)
            tokens, over = tokens_of_bytes(size(text) + sent), size(text) - most
            if over <= 0:
                used = ContextUse(strategy, tokens, budget.limit, fit.omitted, ESTIMATOR)
                return replace(told, prompt=text, use=used)
            kept = sum(part.size for part in fit.kept)
            if kept == least:
                return _too_large(node, budget, tokens)
            room = max(kept - over, (kept + least) // 2)

    def _parts(self, task: PrepareTask | AgentTask, given: IterationInput) -> tuple[Part, ...]:
        if task.node.context_strategy is None:
            return ()
        at = BriefingAt(
            path=task.place.path,
            branch=task.place.branch,
            request=task.user_request.text if task.user_request else "",
            feedback=task.feedback,
            input=given.merged or None,
            item=task.item,
            element=given.element,
            needed=given.needed,
        )
        read = BriefingFiles(self._output, self._changed, self._patch)
        return briefing_parts(task.node.context_strategy, self._record(), at, read)

    def _output(self, path: str) -> str:
        content = (
            files.read_usable(self._layout.absolute(path), MAX_OUTPUT_BYTES) if is_inside(path) else None
        )
        return (content or b"").decode("utf-8", "replace")

    def _patch(self, before: str, after: str) -> str:
        found = self._read_patch(before, after) if self._read_patch and before != after else b""
        return found[:MAX_PATCH_BYTES].decode("utf-8", "replace")

    def _changed(self, before: str, after: str) -> tuple[str, ...]:
        key = before, after
        if key not in self._compared:
            found = self._trees.changed(before, after, MAX_CHANGED)
            if isinstance(found, NoTree):
                return ()
            if len(self._compared) == MAX_COMPARED:
                self._compared.pop(next(iter(self._compared)))
            self._compared[key] = found
        return self._compared[key]


def _said_parts(said: Told) -> Iterator[Part]:
    if said.feedback is not None:
        yield Part("feedback", said.feedback.text, FEEDBACK_RANK, keep="head", variable="FEEDBACK")
    for age, answer in enumerate(reversed(said.answers)):
        text = msgspec.json.encode(answer).decode()
        yield Part(f"answer {len(said.answers) - age}", text, ANSWER_RANK, age, variable="ANSWERS")
    for age, note in enumerate(reversed(said.notes)):
        yield Part(f"note {len(said.notes) - age}", note.text, NOTE_RANK, age, variable="CONTEXT")


def _told(said: Told, kept: tuple[Part, ...], missing: int) -> Told:
    """With what is left of it."""
    texts = {part.name: part.text for part in kept if part.variable != "BRIEFING"}
    briefed = [part for part in kept if part.variable == "BRIEFING"]
    feedback = said.feedback
    return Told(
        replace(feedback, text=texts["feedback"]) if feedback and "feedback" in texts else None,
        tuple(one for number, one in enumerate(said.answers, 1) if f"answer {number}" in texts),
        tuple(one for number, one in enumerate(said.notes, 1) if f"note {number}" in texts),
        briefing_text(briefed, missing),
    )


def _too_large(node: StageNode, budget: TokenBudget, needed: int) -> ErrorOccurred:
    message = (
        f"the prompt of stage {node.id!r} needs {needed:,} tokens with the user request, the item and the"
        f" schema, which are never cut; its budget is {budget.limit:,} (`tokens`: {budget.total:,} in all,"
        f" {budget.reserve:g} % reserve, {budget.share:g} % of the rest for this stage)"
    )
    return ErrorOccurred(FailureKind.CONTEXT_TOO_LARGE, message, node.id, 0)


def sent_by(provider_of: Callable[[str], Provider]) -> Callable[[StageNode], int]:
    """How many bytes the providers of a stage send beside the prompt, at most."""

    def sent(node: StageNode) -> int:
        most, schema = 0, node.artifact.agent_schema if node.artifact else None
        for choice in node.chain:
            # One that is missing is reported where it is called.
            with suppress(AgentForgeError):
                provider = provider_of(choice.type)
                if isinstance(provider, SendsMore):
                    most = max(most, size(provider.sent_besides(choice.config, schema)))
        return most

    return sent
