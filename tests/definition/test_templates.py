"""Prompt templates: every variable, one pass, everything else untouched."""

import pytest

from agentforge.model.names import CURRENT, DEPRECATED, LEGACY, PROMPT_VARIABLES
from agentforge.views.prompt import fill, render, substitute_session, with_result_instructions


def test_the_known_variables() -> None:
    assert (
        *("CTX", "STATUS", "RESULT", "PROGRESS", "OUTPUT", "FEEDBACK", "ANSWERS", "REQUEST"),
        *("ARTIFACT", "SCHEMA", "INPUT_ARTIFACT", "ITEM", "BRIEFING"),
    ) == CURRENT
    assert DEPRECATED == ("SESSION", "SESSION_NAME", "ITERATION", "INDEX", "CONTEXT")
    assert LEGACY == ("PERSPECTIVE", "OUTPUT_PATH", "PROGRESS_FILE")


@pytest.mark.parametrize("name", PROMPT_VARIABLES)
def test_variable_is_replaced_everywhere(name: str) -> None:
    values = {other: f"<{other}>" for other in PROMPT_VARIABLES}
    assert render(f"a ${{{name}}} b ${{{name}}}", values) == f"a <{name}> b <{name}>"


@pytest.mark.parametrize("name", PROMPT_VARIABLES)
def test_missing_value_becomes_empty(name: str) -> None:
    assert render(f"[${{{name}}}]", {}) == "[]"


@pytest.mark.parametrize(
    "text",
    [
        "${UNKNOWN}",
        "$CTX",
        "${ctx}",
        "${CTX",
        "${ CTX }",
        "${CTX_}",
        "${}",
        "$${",
        "$(rm -rf x)",
        "`id`",
        "\\1",
    ],
)
def test_unknown_placeholders_are_left_unchanged(text: str) -> None:
    assert render(text, {"CTX": "value"}) == text


@pytest.mark.parametrize("value", ["${CTX}", "a & b", "\\1 \\g<0>", "${SESSION}", "$", "${CONTEXT}"])
def test_values_are_never_expanded_again(value: str) -> None:
    assert render("<${CONTEXT}>", {"CONTEXT": value, "CTX": "no", "SESSION": "no"}) == f"<{value}>"


@pytest.mark.parametrize("text", ["a\r\nb\r\n", "\n\n  x\t \n\n\n", "no newline", "", "\ufeffé\u2028計画\r"])
def test_line_endings_and_whitespace_are_preserved(text: str) -> None:
    assert render(text, {}) == text
    assert render(text + "${CTX}" + text, {"CTX": "c"}) == text + "c" + text


def test_longer_names_are_not_cut_short() -> None:
    values = {"OUTPUT": "o", "OUTPUT_PATH": "op", "SESSION": "s", "SESSION_NAME": "sn", "PROGRESS": "p"}
    assert render("${OUTPUT_PATH} ${SESSION_NAME} ${PROGRESS_FILE}|", values) == "op sn |"


def test_output_path_knows_the_session() -> None:
    assert substitute_session("docs/${SESSION}-${SESSION_NAME}-${CTX}.md", "a&b") == "docs/a&b-a&b-${CTX}.md"


def test_fill_replaces_exactly_the_given_variables_in_one_pass() -> None:
    values = {"OUTPUT": "${CTX}", "COMMAND": "make"}
    assert fill("${OUTPUT} ${CTX} ${COMMAND} $COMMAND ${}", values) == "${CTX} ${CTX} make $COMMAND ${}"


def test_only_a_prompt_that_does_not_ask_for_the_result_is_extended() -> None:
    for text in ("write to ${RESULT}", "write to ${STATUS}"):
        assert with_result_instructions(text) == text
    extended = with_result_instructions("do it\n\n")
    assert extended.startswith("do it\n\n---\n")
    assert render(extended, {"RESULT": "/r.json"}).count("/r.json") == 1
    assert "verdict" not in extended


def test_instructions_name_the_verdicts_that_a_stage_may_have() -> None:
    extended = with_result_instructions("do it", ("pass", "fail", "reject", "blocking"))
    assert '"pass", "fail", "reject", "blocking"' in extended
    assert "items" not in extended
    assert '"items"' in with_result_instructions("do it", ("pass", "fail"), returns_items=True)
