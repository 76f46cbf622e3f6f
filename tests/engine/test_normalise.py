"""result.json, status.json and raw output, in every shape that agents leave them in."""

import json
import re
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.plans import stage

from agentforge.engine.normalise import (
    MAX_OUTPUT_BYTES,
    TRUNCATED,
    clean_output,
    normalise_result,
    with_fields_of,
)
from agentforge.model.artifact import ArtifactRule
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import Artifacts, Decision, Result, Signals, WorkReport

FULL = {
    "summary": "Did it",
    "work": {"items_completed": ["a"], "files_touched": ["x.py"]},
    "artifacts": {"outputs": ["report"], "paths": ["r.md"]},
    "signals": {"plateau_suspected": True, "risk": "medium", "notes": "fine"},
    "decision": "stop",
    "reason": "all done",
    "errors": ["a warning"],
}

STATUS = {
    "decision": "stop",
    "reason": "All work complete",
    "summary": "Completed all work",
    "work": {"items_completed": ["task-1"], "files_touched": ["test.txt"]},
    "errors": ["flaky"],
}


def result_of(value: Any) -> Result:
    result = normalise_result(json.dumps(value), None)
    assert isinstance(result, Result)
    return result


def status_of(value: Any) -> Result:
    result = normalise_result(None, json.dumps(value))
    assert isinstance(result, Result)
    return result


def failure_of(result: str | None, status: str | None) -> Failure:
    failure = normalise_result(result, status)
    assert isinstance(failure, Failure)
    return failure


def test_a_valid_result_is_used_directly() -> None:
    assert result_of(FULL) == Result(
        summary="Did it",
        work=WorkReport(("a",), ("x.py",)),
        artifacts=Artifacts(("report",), ("r.md",)),
        signals=Signals(True, "medium", "fine"),
        decision=Decision.STOP,
        reason="all done",
        errors=("a warning",),
    )


def test_result_precedes_status() -> None:
    both = normalise_result(json.dumps({"summary": "result"}), json.dumps(STATUS))
    assert isinstance(both, Result)
    assert (both.summary, both.decision) == ("result", Decision.CONTINUE)


def test_status_v2_is_converted_to_result_v3() -> None:
    assert status_of(STATUS) == Result(
        summary="Completed all work",
        work=WorkReport(("task-1",), ("test.txt",)),
        artifacts=Artifacts(),
        signals=Signals(plateau_suspected=False, risk="low", notes="All work complete"),
        decision=Decision.STOP,
        reason="All work complete",
        errors=("flaky",),
    )


def test_plateau_is_never_inferred_from_a_stop() -> None:
    assert status_of({"decision": "stop"}).signals.plateau_suspected is False
    assert result_of({"decision": "stop"}).signals.plateau_suspected is False


def test_a_suspected_plateau_or_a_high_risk_has_no_effect() -> None:
    assert result_of({"signals": {"plateau_suspected": True, "risk": "high"}}).decision is Decision.CONTINUE


def test_an_error_decision_keeps_its_errors() -> None:
    status = status_of({"decision": "error", "reason": "rE", "summary": "s", "errors": ["x"]})
    assert (status.decision, status.errors, status.signals.notes) == (Decision.ERROR, ("x",), "rE")


def test_the_notes_are_the_default_reason() -> None:
    assert result_of({"signals": {"notes": "more to do"}}).reason == "more to do"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{broken", "malformed"),
        ("", "empty"),
        ("  \n", "empty"),
        ("[1, 2]", "not an object"),
        ("null", "not an object"),
        ('"done"', "not an object"),
        ("[" * 100_000, "recursion"),
        ('{"summary": "cut o', "truncated"),
    ],
)
def test_a_malformed_result_is_result_invalid_with_the_reason(text: str, what: str) -> None:
    failure = failure_of(text, json.dumps(STATUS))
    assert failure.kind is FailureKind.RESULT_INVALID
    assert "result.json" in failure.message
    assert what in failure.message


def test_neither_file_is_result_missing() -> None:
    assert failure_of(None, None).kind is FailureKind.RESULT_MISSING


def test_a_malformed_status_alone_is_result_missing_with_the_reason() -> None:
    failure = failure_of(None, "{broken")
    assert failure.kind is FailureKind.RESULT_MISSING
    assert "status.json is malformed" in failure.message


@pytest.mark.parametrize("wrong", [None, 7, True, "text", [], [None], {}, {"x": 1}])
def test_wrong_inner_types_become_defaults(wrong: Any) -> None:
    broken = {
        "summary": wrong if not isinstance(wrong, str) else 1,
        "work": wrong,
        "artifacts": wrong,
        "signals": wrong,
        "reason": wrong if not isinstance(wrong, str) else 1,
    }
    assert result_of(broken) == Result()
    assert status_of(broken) == Result()


def test_wrong_types_deeper_inside_become_defaults() -> None:
    broken = {
        "work": {"items_completed": "all", "files_touched": ["a.py", None, {"b": 1}, True, 12]},
        "artifacts": {"outputs": 3, "paths": None},
        "signals": {"plateau_suspected": "yes", "risk": 5, "notes": ["n"]},
        "errors": 4,
    }
    assert result_of(broken) == Result(work=WorkReport((), ("a.py", "12")))


@pytest.mark.parametrize(("written", "decision"), [("STOP", "stop"), (" error ", "error"), ("", "continue")])
def test_a_decision_is_read_leniently(written: str, decision: str) -> None:
    assert result_of({"decision": written}) == Result(decision=Decision(decision))


@pytest.mark.parametrize("written", ["done", 1, ["stop"], {"stop": True}])
def test_an_unknown_decision_counts_as_continue_and_adds_an_error(written: Any) -> None:
    result = result_of({"decision": written, "errors": ["first"]})
    assert result.decision is Decision.CONTINUE
    assert result.errors[0] == "first"
    assert "unknown decision" in result.errors[1]


def test_errors_of_any_shape_are_kept() -> None:
    assert result_of({"errors": ["a", {"code": 1}]}).errors == ("a", '{"code":1}')
    assert result_of({"errors": "just one"}).errors == ("just one",)


def test_a_byte_order_mark_is_not_an_error() -> None:
    assert isinstance(normalise_result("\ufeff{}", None), Result)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FULL, *FULL["work"]]), inner)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from([*sorted(FULL), "next"]), JSON)
QUESTION_KEYS = ("id", "question", "options", "default", "blocking")
QUESTIONS = st.lists(st.dictionaries(st.sampled_from(QUESTION_KEYS), JSON) | JSON, max_size=15)


# The first text drawn on a machine builds the table of all characters, which takes a second.
@given(OBJECTS)
def test_any_object_yields_a_result_that_round_trips(value: dict[str, Any]) -> None:
    for result in (
        normalise_result(json.dumps(value), None),
        normalise_result(None, json.dumps(value)),
    ):
        if isinstance(result, Failure):
            # Only what isn't JSON to a strict reader (halves of characters, numbers without end), and a
            # decision to ask without a question.
            assert "malformed" in result.message or "no questions" in result.message
            continue
        again = normalise_result(msgspec.json.encode(result).decode(), None)
        assert again == result


@given(st.text() | st.none(), st.text() | st.none())
def test_any_text_gives_a_result_or_a_failure(result: str | None, status: str | None) -> None:
    assert isinstance(normalise_result(result, status), Result | Failure)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m\n", "red\n"),
        (b"\x1b[2K\x1b[1Gline\n", "line\n"),
        (b"\x1b[38:2::255:0:0mtrue colour\x1b[m\n", "true colour\n"),
        (b"\x1b[?25lhidden cursor\x1b[?25h\n", "hidden cursor\n"),
        (b"\x1b]0;title\x07text\n", "text\n"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
        (b"\x1b]0;never ended\nnext line\n", "\nnext line\n"),
        (b"\x1bPq#0;2;0\nsixel\x1b\\after\n", "after\n"),
        (b"\x1bPno end, kept", "no end, kept\n"),
        (b"\x1b(Bplain\x1b7\x1b8\x1bM\x1bc\n", "plain\n"),
        (b"\x1b\x1b[0m[31m\n", "[31m\n"),
        (b"end\x1b[", "end\n"),
        (b"end\x1b", "end\n"),
    ],
)
def test_ansi_escape_codes_are_stripped(raw: bytes, text: str) -> None:
    assert clean_output(raw).text == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"\n\n", ""),
        (b"a", "a\n"),
        (b"a\n\n\n", "a\n"),
        (b"\n a \n", "\n a \n"),
        (b"a\r\nb\r\r\n", "a\nb\n"),
        (b"100%\r", "100%\n"),
        (b"10%\r50%\r100%\n", "10%\r50%\r100%\n"),
        (b"caf\xc3\xa9\xff\n", "café\ufffd\n"),
        (b"cut \xe2\x82", "cut \ufffd\n"),
    ],
)
def test_output_is_utf8_with_one_newline_at_its_end(raw: bytes, text: str) -> None:
    assert clean_output(raw).text == text


def test_output_of_exactly_one_megabyte_is_kept() -> None:
    raw = b"x" * (MAX_OUTPUT_BYTES - 1) + b"\n"
    output = clean_output(raw)
    assert (len(output.text), output.truncated_from) == (MAX_OUTPUT_BYTES, None)


def test_longer_output_is_truncated_at_the_line_before_the_limit() -> None:
    raw = b"0123456789\n" * 100_000
    output = clean_output(raw)
    assert output.truncated_from == 1_100_000
    assert output.text.endswith("0123456789" + TRUNCATED)
    kept = output.text.removesuffix(TRUNCATED)
    assert MAX_OUTPUT_BYTES - 11 <= len(kept) <= MAX_OUTPUT_BYTES
    assert set(kept.split("\n")) == {"0123456789"}


def test_one_endless_line_is_truncated_between_characters() -> None:
    output = clean_output("é".encode() * MAX_OUTPUT_BYTES)
    kept = output.text.removesuffix(TRUNCATED)
    assert kept == "é" * (MAX_OUTPUT_BYTES // 2)


@pytest.mark.parametrize(
    "raw", [b"\x1b[31mx\x1b[0m\n" * 400_000, b"\x1b" * 4_000_000, b"\x1bP" * 2_000_000, b"\r" * 4_000_000]
)
def test_cleaning_four_megabytes_takes_linear_time(raw: bytes) -> None:
    began = time.process_time()
    clean_output(raw)
    assert time.process_time() - began < 5


PIECES = st.sampled_from(
    [
        b"\x1b",
        b"[",
        b"]",
        b"0;1",
        b"m",
        b"\x07",
        b"\\",
        b"P",
        b"(",
        b"\n",
        b"\r",
        b"x",
        b"\xc3",
        b"\xa9",
        b" ",
    ]
)


@given(st.lists(PIECES).map(b"".join) | st.binary())
def test_cleaned_output_holds_no_escapes_and_stays_as_it_is(raw: bytes) -> None:
    text = clean_output(raw).text
    assert "\x1b" not in text
    assert clean_output(text.encode()).text == text
    assert text == "" or re.search(r"[^\r\n]\n\Z", text)


STATING = ArtifactRule({}, result=("verdict", "reason", "items", "summary"))


@pytest.mark.parametrize(
    ("rule", "artifact", "result", "expected"),
    [
        (None, {"verdict": "fail"}, Result(verdict="pass"), Result(verdict="pass")),
        (STATING, {"goal": "x"}, Result(summary="s"), Result(summary="s")),
        (
            STATING,
            {"verdict": "Fail", "items": ["s1", 2]},
            Result(),
            Result(verdict="fail", items=("s1", "2")),
        ),
        (
            STATING,
            {"verdict": "reject"},
            Result(verdict="pass", items=("s1",)),
            Result(verdict="reject", items=("s1",)),
        ),
        (STATING, {"summary": "a"}, Result(summary="r", reason="why"), Result(summary="a", reason="why")),
        (
            STATING,
            {"reason": "a"},
            Result(summary="r", verdict="pass"),
            Result(summary="r", reason="a", verdict="pass"),
        ),
    ],
)
def test_fields_of_an_artifact_count_in_place_of_the_result(
    rule: ArtifactRule | None, artifact: dict[str, Any], result: Result, expected: Result
) -> None:
    assert with_fields_of(artifact, stage("review", artifact=rule), result) == expected


def test_verdict_of_an_artifact_must_be_allowed() -> None:
    failure = with_fields_of({"verdict": "approved"}, stage("review", artifact=STATING), Result())
    assert isinstance(failure, Failure)
    assert (failure.kind, "'approved'" in failure.message) == (FailureKind.RESULT_INVALID, True)
