"""The language of conditions: what is accepted, and what is reported, where."""

import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.any_condition import Typed, conditions

from agentforge.definition.conditions import parse_condition
from agentforge.definition.report import Report
from agentforge.definition.yaml_tree import Written
from agentforge.engine.conditions import Values, evaluate
from agentforge.model.condition import MAX_LENGTH, VARIABLES, Condition, condition_problem, condition_text
from agentforge.model.diagnostic import Diagnostic, SourcePlace

PREFIX = "condition: "


def parsed(text: str, source: str | None = None) -> tuple[Condition | None, tuple[Diagnostic, ...]]:
    """`source` is how the text is written in the file."""
    report = Report()
    report.add_text("p.yaml", PREFIX + (text if source is None else source))
    found = parse_condition(Written(text, SourcePlace("p.yaml", 1, len(PREFIX) + 1)), report)
    return found, report.diagnostics


def errors(text: str, source: str | None = None) -> list[tuple[str, int, str]]:
    """Code, offset in the written value, message."""
    found, diagnostics = parsed(text, source)
    assert found is None
    return [(one.code, one.place.col - len(PREFIX) - 1, one.message) for one in diagnostics]


@pytest.mark.parametrize(
    ("text", "true_at", "false_at"),
    [
        ("iteration % 5 == 0", (5, "research"), (6, "research")),
        ("iteration > 10", (11, "research"), (10, "research")),
        ('stage == "research"', (1, "research"), (1, "plan")),
        ("iteration % 3 == 0 && iteration > 5", (6, "plan"), (3, "plan")),
        ("iteration == 1 || stage != 'plan' && iteration < 3", (1, "plan"), (3, "build")),
        ('stage in ["plan", "build"]', (1, "build"), (1, "research")),
        ("iteration in [1,2]", (2, "build"), (3, "build")),
        ('"ear" in stage', (1, "research"), (1, "plan")),
        (r'stage matches "^re(s|t)\w+$"', (1, "research"), (1, "plan")),
        ("!(iteration <= 2)\n  && true", (3, "plan"), (2, "plan")),
        ("(stage == 'it\\'s')", (1, "it's"), (1, "its")),
    ],
)
def test_hook_condition_evaluation(text: str, true_at: tuple[int, str], false_at: tuple[int, str]) -> None:
    condition, diagnostics = parsed(text)
    assert condition is not None
    assert diagnostics == ()
    for (iteration, stage), expected in ((true_at, True), (false_at, False)):
        others: Values = dict.fromkeys(VARIABLES, "")
        assert evaluate(condition, {**others, "iteration": iteration, "stage": stage}) is expected


@pytest.mark.parametrize(
    ("text", "code", "offset", "message"),
    [
        ("", "syntax", 0, "the condition is empty"),
        ("iteration >", "syntax", 11, "the condition is incomplete"),
        ("iteration = 3", "syntax", 10, "unexpected `=` in the condition"),
        ("1 < iteration < 5", "syntax", 14, "unexpected `<` in the condition"),
        ("stage == 'x", "syntax", 9, "unexpected `'` in the condition"),
        ("stage.upper == 'x'", "syntax", 5, "unexpected `.` in the condition"),
        ("not stage == 'x'", "syntax", 4, "unexpected `stage` in the condition"),
        ("stge == 'x'", "unknown-variable", 0, "unknown variable `stge` in the condition"),
        ("iteration == and", "unknown-variable", 13, "unknown variable `and` in the condition"),
        ("len(stage) > 3", "function-call", 0, "a condition can't call functions: `len(…)`"),
        ("stage > 3", "bad-type", 0, "`>` needs an integer, got a string"),
        ("stage == 3", "bad-type", 9, "`==` can't compare a string with an integer"),
        ("stage == ['x']", "bad-type", 9, "`==` can't compare a string with a list"),
        ("['x'] == stage", "bad-type", 0, "`==` can't compare a list"),
        ("!stage == 'x'", "bad-type", 1, "`!` needs true or false, got a string"),
        ("['x'] && true", "bad-type", 0, "`&&` needs true or false, got a list"),
        ("iteration", "bad-type", 0, "a condition needs true or false, got an integer"),
        ("iteration in ['a']", "bad-type", 13, "`in` can't compare an integer with a string"),
        ("iteration in stage", "bad-type", 0, "`in` needs a string, got an integer"),
        ("stage in []", "bad-value", 9, "the list is empty"),
        ("iteration % 0 == 0", "bad-value", 12, "`%` divides by zero"),
        ("stage matches '(a'", "bad-value", 14, "invalid pattern: `(` is not closed"),
        (
            "iteration == 9223372036854775808",
            "bad-value",
            13,
            "the number `9223372036854775808` is too large",
        ),
        ("stage == '\u202e'", "control-character", 0, "the condition contains the control character U+202E"),
        ("true " * 201, "too-large", 0, "the condition has 1,005 characters; the maximum is 1,000"),
        ("!" * 50 + "true", "too-large", 50, "the condition is nested more than 50 levels deep"),
    ],
)
def test_a_wrong_condition_is_reported_with_its_place(
    text: str, code: str, offset: int, message: str
) -> None:
    assert errors(text) == [(code, offset, message)]


def test_all_errors_of_types_and_names_are_reported() -> None:
    assert [code for code, _, _ in errors("foo == 1 && f(1) && stage == 2 && bar in [1]")] == [
        "unknown-variable",
        "function-call",
        "bad-type",
        "unknown-variable",
    ]


@pytest.mark.parametrize(
    ("text", "source", "offset"),
    [
        ('stage == "a" && foo == 1', '"stage == \\"a\\" && foo == 1"', 19),
        ("stage == 'a' && foo == 1", "'stage == ''a'' && foo == 1'", 19),
        ("stage == '\u00e9' && foo == 1", "\"stage == '\\u00e9' && foo == 1\"", 0),
        ("true\n&& foo == 1", "|", 0),
    ],
)
def test_the_place_takes_account_of_how_the_text_is_quoted(text: str, source: str, offset: int) -> None:
    assert [place for _, place, _ in errors(text, source)] == [offset]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("iteration = 3", "compare with `==`"),
        ("true and true", "write `&&`"),
        ("true or true", "write `||`"),
        ("not true", "write `!`"),
        ("stge == 'x'", "did you mean `stage`?"),
        ("!stage == 'x'", "put the comparison in parentheses: `!(…)`"),
        ("iteration", "compare it, for example with `==`"),
        ("iteration + 1 == 2", "the only arithmetic operator is `%`"),
    ],
)
def test_common_mistakes_have_a_hint(text: str, hint: str) -> None:
    _, (diagnostic,) = parsed(text)
    assert diagnostic.hint.startswith(hint)


def test_parentheses_are_not_counted_as_depth() -> None:
    condition, _ = parsed("(" * 450 + "true" + ")" * 450)
    assert condition is not None
    assert condition_text(condition) == "true"


@given(conditions)
def test_what_is_printed_is_parsed_again(typed: Typed) -> None:
    condition, _ = typed
    text = condition_text(condition)
    assume(len(text) <= MAX_LENGTH and "% 0" not in text)
    assert parsed(text) == (condition, ())


NAMES_AND_VALUES = ("iteration", "stage", "event", "foo", "1", "-2", '"a"', "true", "in", "matches", "not")
SIGNS = ("==", "!=", "<", ">=", "%", "&&", "||", "!", "(", ")", "[", "]", ",", ".", "=", "'", '"', "\\")
WORDS = st.sampled_from((*NAMES_AND_VALUES, *SIGNS, " ", "\n", "\x00", "é"))
ANY_TEXT = st.lists(WORDS, max_size=20).map(" ".join) | st.lists(WORDS, max_size=400).map("".join) | st.text()


@given(ANY_TEXT)
def test_any_text_is_a_condition_or_has_a_diagnostic(text: str) -> None:
    condition, diagnostics = parsed(text)
    if condition is None:
        assert diagnostics
        assert all(one.is_error and one.place.col > len(PREFIX) for one in diagnostics)
    else:
        assert (diagnostics, condition_problem(condition)) == ((), "")


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True) | st.sampled_from(
    ["__import__", "os", "self", "values", "None", "True", "len", "__class__", "eval"]
)


@given(
    NAMES, st.sampled_from(["{} == 1", "{}", "{}(1)", "1 < {}", "'a' in {}", "{} && true", "stage.{} == 1"])
)
def test_no_name_outside_the_list_is_reachable(name: str, place: str) -> None:
    assume(name not in (*VARIABLES, "true", "false", "in", "matches"))
    assert {code for code, _, _ in errors(place.format(name))} <= {
        "unknown-variable",
        "function-call",
        "syntax",
    }


@pytest.mark.parametrize("modules", ["agentforge.definition.compiler", "agentforge.engine.decide.run"])
def test_the_parser_is_loaded_only_for_a_condition_in_a_file(modules: str) -> None:
    """A definition without conditions doesn't need it, nor does a run that is resumed."""
    script = f"import sys, {modules}; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
