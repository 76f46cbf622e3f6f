"""The questions of an agent's result, in every shape that agents write them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from tests.engine.test_normalise import JSON, QUESTIONS, failure_of, result_of, status_of

from agentforge.engine.claims import (
    MAX_OPTION_CHARS,
    MAX_OPTIONS,
    MAX_QUESTION_CHARS,
    MAX_QUESTIONS,
    words_of,
)
from agentforge.engine.normalise import normalise_result, normalise_returned
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import AgentQuestion, Decision, Result


def ask(*questions: Any, **more: Any) -> dict[str, Any]:
    return {"decision": "ask", "questions": list(questions), **more}


def questions_of(*questions: Any) -> tuple[AgentQuestion, ...]:
    return result_of(ask(*questions)).asked


def question_of(**written: Any) -> AgentQuestion:
    (question,) = questions_of({"question": "Which one?", **written})
    return question


def remarks_of(*questions: Any) -> tuple[str, ...]:
    return result_of(ask(*questions)).errors


def test_questions_are_read_as_written() -> None:
    written = ask(
        {"id": "db", "question": "Which database?", "options": ["sqlite", "postgres"], "default": "sqlite"},
        {"id": "name", "question": "What is its name?"},
        {"id": "log", "question": "Keep the log?", "default": "yes", "blocking": False},
        summary="asked",
    )
    result = result_of(written)
    assert (result.decision, result.summary, result.errors) == (Decision.ASK, "asked", ())
    assert result.asked == (
        AgentQuestion("db", "Which database?", ("sqlite", "postgres"), "sqlite"),
        AgentQuestion("name", "What is its name?"),
        AgentQuestion("log", "Keep the log?", default="yes", blocking=False),
    )


def test_questions_are_read_from_status_and_from_returned_results() -> None:
    asked = (AgentQuestion("q1", "Which one?"),)
    assert status_of(ask("Which one?")).asked == asked
    returned = normalise_returned(ask("Which one?"))
    assert isinstance(returned, Result)
    assert returned.asked == asked


@pytest.mark.parametrize(
    "questions", [None, [], "", "Which one?", [None, True, {}, [], {"question": " "}, {"question": {}}]]
)
def test_asking_without_questions_is_result_invalid_and_says_what_to_write(questions: Any) -> None:
    failure = failure_of(json.dumps({"decision": "ask", "questions": questions}), None)
    assert failure.kind is FailureKind.RESULT_INVALID
    assert failure.message.startswith('the decision is "ask", but the result has no questions: write them as')
    assert '"questions": [{"question": "..."' in failure.message


@pytest.mark.parametrize("decision", ["continue", "stop", "error"])
def test_questions_with_another_decision_are_ignored_with_a_remark(decision: str) -> None:
    result = result_of({**ask("Which one?"), "decision": decision, "errors": ["own"]})
    assert result.asked == ()
    assert result.errors == ("own", 'questions are only asked with the decision "ask": ignored')
    assert result_of({"decision": decision, "questions": []}).errors == ()


def test_a_result_without_questions_has_no_such_key() -> None:
    assert b"questions" not in msgspec.json.encode(result_of({"summary": "done"}))


def test_missing_repeated_and_unusable_ids_are_replaced() -> None:
    written = [
        {"question": "a"},
        {"id": "q1", "question": "b"},
        {"id": "q1", "question": "c"},
        {"id": "../x", "question": "d"},
        {"id": 7, "question": "e"},
        {"id": "x" * 65, "question": "f"},
    ]
    assert [question.id for question in questions_of(*written)] == ["q2", "q1", "q3", "q4", "7", "q5"]


def test_the_same_question_is_asked_once() -> None:
    again = {"id": "two", "question": " which  ONE?\n"}
    assert questions_of({"id": "one", "question": "Which one?"}, again) == (
        AgentQuestion("one", "Which one?"),
    )


def test_questions_beyond_the_maximum_are_dropped_with_a_remark() -> None:
    written = [f"question {number}" for number in range(MAX_QUESTIONS + 2)]
    assert [question.question for question in questions_of(*written)] == written[:MAX_QUESTIONS]
    assert remarks_of(*written) == ("more than 10 questions: the last 2 dropped",)
    assert remarks_of(*written[:MAX_QUESTIONS]) == ()


def test_options_are_different_texts() -> None:
    assert question_of(options=["a", " a ", "", None, 2, {"label": "x"}]).options == ("a", "2")
    assert question_of(options="a").options == ()


def test_options_beyond_the_maximum_are_dropped_with_a_remark() -> None:
    options = [f"option {number}" for number in range(MAX_OPTIONS + 1)]
    assert question_of(options=options).options == tuple(options[:-1])
    remark = "question 'db' has more than 10 options: the others dropped"
    assert remarks_of({"id": "db", "question": "a", "options": options}) == (remark,)
    assert remarks_of({"id": "db", "question": "a", "options": options[:-1]}) == ()


def test_long_texts_are_cut() -> None:
    long = "x" * (MAX_QUESTION_CHARS + 1)
    cut = question_of(question=long, default=long)
    assert len(cut.question) == len(cut.default or "") == MAX_QUESTION_CHARS
    assert cut.question.endswith("x…")
    assert question_of(question=long[1:]).question == long[1:]
    (option,) = question_of(options=[long], default=long).options
    assert len(option) == MAX_OPTION_CHARS
    assert question_of(options=[long], default=long).default == option


def test_a_default_that_is_not_an_option_is_ignored_with_a_remark() -> None:
    written = {"question": "Which one?", "options": ["a", "b"], "default": "c", "blocking": False}
    assert questions_of(written) == (AgentQuestion("q1", "Which one?", ("a", "b")),)
    assert remarks_of(written) == ("the default of question 'q1' is not one of its options: ignored",)
    assert question_of(options=[1, 2], default=2).default == "2"


@pytest.mark.parametrize("default", [None, "", "  ", [], True])
def test_a_question_without_a_default_is_blocking(default: Any) -> None:
    assert question_of(blocking=False, default=default) == AgentQuestion("q1", "Which one?")


def test_a_question_is_blocking_unless_it_says_otherwise() -> None:
    for blocking in (True, None, "false", 0):
        assert question_of(blocking=blocking, default="a").blocking
    assert not question_of(blocking=False, default="a").blocking


@given(QUESTIONS | JSON)
def test_any_questions_are_bounded_and_stay_as_they_are(questions: Any) -> None:
    result = normalise_result(json.dumps({"decision": "ask", "questions": questions}), None)
    if isinstance(result, Failure):
        return
    assert 1 <= len(result.asked) <= MAX_QUESTIONS
    assert len({question.id for question in result.asked}) == len(result.asked)
    assert len({words_of(question.question) for question in result.asked}) == len(result.asked)
    for question in result.asked:
        assert 1 <= len(question.question) <= MAX_QUESTION_CHARS
        assert len(question.options) <= MAX_OPTIONS
        assert question.blocking or question.default
        assert question.default is None or not question.options or question.default in question.options
    assert normalise_result(msgspec.json.encode(result).decode(), None) == result
