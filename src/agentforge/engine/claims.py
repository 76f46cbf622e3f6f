"""Normalises what an agent claims in its result: its verdict on the work, or the node to go to next, and its
questions."""

import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from agentforge.model.failure import Failure, FailureKind, short_message
from agentforge.model.plan import VERDICTS, StageNode
from agentforge.model.result import AgentQuestion, Decision, JSONObject

# What an agent writes decides where a run goes, so the two kinds of mistakes are told apart. A verdict
# that isn't allowed fails the attempt: to ignore it would send the run along a route that its agent
# didn't choose, and the next attempt is told which verdicts there are. What is too long or too much is
# cut with a remark: a question is still one when it is shorter, and another attempt would cost more than
# what was lost.
#
# Answers are found by the ids of questions, so that each must be usable and different, whatever the agent
# wrote.

SHOWN_CHARS = 60

Claimed = tuple[str | UnsetType, tuple[str, ...]]
"""The verdict, and remarks about what was ignored."""


class AllowedVerdicts(Struct, frozen=True):
    """The verdicts that a result may have."""

    words: tuple[str, ...] = VERDICTS
    targets: tuple[tuple[str, str], ...] = ()
    """Each node that a route leads to, with the verdict of the route."""


def allowed_by(node: StageNode) -> AllowedVerdicts:
    targets = ((route.to, route.verdict) for route in node.routes if route.action == "go")
    return AllowedVerdicts(node.allowed_verdicts, tuple(targets))


def claimed_verdict(written: JSONObject, allowed: AllowedVerdicts) -> Claimed | Failure:
    """A verdict that isn't allowed makes the result invalid. `next` only counts without a verdict, and if a
    route leads there."""
    given, to = written.get("verdict"), written.get("next")
    if given is None or given == "":
        if not isinstance(to, str) or not to:
            return UNSET, ()
        word = next((word for target, word in allowed.targets if target == to.strip()), None)
        ignored = f"next {_shown(to)} ignored: no route of the stage leads there"
        return (word, ()) if word else (UNSET, (ignored,))
    claimed = given.strip().lower() if isinstance(given, str) else None
    word = next((word for word in allowed.words if word.lower() == claimed), None)
    if word is None:
        known = ", ".join(allowed.words)
        message = f"verdict must be one of {known}, got {_shown(given)}"
        hint = "to allow it, add it to the stage's `verdicts`"
        return Failure(FailureKind.RESULT_INVALID, f"{message}; {hint}")
    agrees = not isinstance(to, str) or not to or (to.strip(), word) in allowed.targets
    return word, () if agrees else (f"next {_shown(to)} ignored: the verdict {word!r} decides",)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


MAX_QUESTIONS = 10
MAX_QUESTION_CHARS = 2_000
MAX_OPTIONS = 10
MAX_OPTION_CHARS = 200

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HOW = (
    'write them as "questions": [{"question": "...", "options": ["...", "..."]}] (without options any text is'
    " an answer), or make another decision"
)

Asked = tuple[tuple[AgentQuestion, ...], tuple[str, ...]]
"""The questions, and remarks about what was changed."""


def asked_questions(written: JSONObject, decision: Decision) -> Asked | Failure:
    """The questions of a result with the decision `ask`. Long texts are cut. What is beyond the limits is
    dropped with a remark, and so are the questions of a result with another decision."""
    given = written.get("questions")
    if decision is not Decision.ASK:
        ignored = 'questions are only asked with the decision "ask": ignored'
        return (), (ignored,) if isinstance(given, list) and given else ()
    items = given if isinstance(given, list) else []
    different = _different(items)
    if not different:
        return Failure(
            FailureKind.RESULT_INVALID, f'the decision is "ask", but the result has no questions: {_HOW}'
        )
    kept = different[:MAX_QUESTIONS]
    remarks = []
    if dropped := len(different) - len(kept):
        remarks.append(f"more than {MAX_QUESTIONS} questions: the last {dropped} dropped")
    questions = tuple(_question(id, item, remarks) for id, item in zip(_ids(kept), kept, strict=True))
    return questions, tuple(remarks)


def _question(id: str, item: JSONObject, remarks: list[str]) -> AgentQuestion:
    given = item.get("options")
    texts = (_cut(option, MAX_OPTION_CHARS) for option in (given if isinstance(given, list) else ()))
    options = tuple(dict.fromkeys(text for text in texts if text))
    if len(options) > MAX_OPTIONS:
        remarks.append(f"question {id!r} has more than {MAX_OPTIONS} options: the others dropped")
        options = options[:MAX_OPTIONS]
    default = _cut(item.get("default"), MAX_OPTION_CHARS if options else MAX_QUESTION_CHARS) or None
    if options and default is not None and default not in options:
        remarks.append(f"the default of question {id!r} is not one of its options: ignored")
        default = None
    return AgentQuestion(
        id,
        _cut(item.get("question"), MAX_QUESTION_CHARS),
        options,
        default,
        # Without a default there is nothing to continue with.
        blocking=item.get("blocking") is not False or default is None,
    )


def _different(items: Sequence[Any]) -> list[JSONObject]:
    """The questions with a text, each once. A question may be only its text."""
    found: dict[str, JSONObject] = {}
    for item in items:
        question: JSONObject = item if isinstance(item, dict) else {"question": item}
        if words := words_of(_cut(question.get("question"), MAX_QUESTION_CHARS)):
            found.setdefault(words, question)
    return list(found.values())


def words_of(question: str) -> str:
    """What two questions have in common that are the same but for spaces and case."""
    return " ".join(question.split()).casefold()


def _ids(items: Sequence[JSONObject]) -> Iterator[str]:
    """The ids that the agent gave; a missing, repeated or unusable one is replaced."""
    given = [_cut(item.get("id"), MAX_OPTION_CHARS) for item in items]
    free = (id for number in count(1) if (id := f"q{number}") not in given)
    seen: set[str] = set()
    for id in given:
        is_usable = _ID.fullmatch(id) is not None and id not in seen
        seen.add(id)
        yield id if is_usable else next(free)


def _cut(value: Any, limit: int) -> str:
    """A text, or a number as a text; empty for anything else."""
    if type(value) not in (str, int, float):
        return ""
    return short_message(str(value).strip(), limit)
