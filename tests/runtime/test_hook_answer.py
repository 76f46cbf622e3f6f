"""What services, scripts and functions answer, as the engine understands it."""

import pytest

from agentforge.model.hook import MAX_CONTEXT, HookResult
from agentforge.model.secrets import Redactor
from agentforge.runtime.hook_answer import MAX_ANSWER, as_recorded, checked_result, read_answer


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", HookResult()),
        (" \n", HookResult()),
        ("more tests\n", HookResult("modify_context", context="more tests")),
        ("{not json", HookResult("modify_context", context="{not json")),
        ('{"ok": true}', HookResult("modify_context", context='{"ok": true}')),
        ("[1]", HookResult("modify_context", context="[1]")),
        ("null", HookResult("modify_context", context="null")),
        ('{"context": "look at a.py"}', HookResult("modify_context", context="look at a.py")),
        ('{"context": ""}', HookResult()),
        ('{"context": null}', HookResult()),
        ('{"action": "pause", "reason": "look"}', HookResult("pause", "look")),
        ('{"action": "abort"}', HookResult("abort")),
        ('{"action": "restart_stage", "context": "c"}', HookResult("restart_stage", context="c")),
        ('{"action": "continue", "extra": 1}', HookResult()),
        ("[" * 5000, HookResult("modify_context", context="[" * 5000)),
    ],
)
def test_an_answer(text: str, result: HookResult) -> None:
    assert read_answer(text) == result


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"action": "explode"}', "its answer has the unknown action 'explode'; use continue, pause, "),
        ('{"action": "answer"}', "its answer has the unknown action 'answer'; use continue, "),
        ('{"action": 1}', "its answer is not valid: Expected `str | null`, got `int` - at `$.action`"),
        ('{"context": 1}', "its answer is not valid: Expected `str | null`, got `int` - at `$.context`"),
        ('{"action": "pause", "reason": []}', "its answer is not valid: Expected `str | null`, got `array`"),
        # The rest of it was cut: what it decides is unknown.
        (' {"action": "abort", "context": "' + "x" * MAX_ANSWER, "its answer is an object of more than 64"),
    ],
)
def test_an_answer_that_is_not_valid_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError) as raised:
        read_answer(text)
    assert str(raised.value).startswith(why)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (None, "it returned NoneType instead of a HookResult"),
        ("pause", "it returned str instead of a HookResult"),
        (HookResult("explode"), "unknown action 'explode'; use continue, .*, answer$"),  # type: ignore[arg-type]
        (HookResult(reason=1), "its result is not valid: Expected `str`, got `int`"),  # type: ignore[arg-type]
        (HookResult(context=object()), "its result is not valid: Encoding objects of type"),  # type: ignore[arg-type]
    ],
)
def test_what_a_function_returns_is_checked(result: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        checked_result(result)


def test_what_is_recorded_is_cut_and_has_no_secrets() -> None:
    long = HookResult("pause", "the key is s3cr3t-value", "é" * MAX_CONTEXT, "a\ud800b", "t" * 10_000)
    kept = as_recorded(long, Redactor(("s3cr3t-value",)))
    assert "s3cr3t" not in kept.reason
    assert len(kept.context.encode()) <= MAX_CONTEXT
    assert kept.context.endswith("é\n(truncated)")
    assert kept.answer == "a?b"
    assert len(kept.text) < 10_000


def test_what_is_recorded_has_no_codes_that_a_string_escaped() -> None:
    said = read_answer(r'{"action": "pause", "reason": "\u001b[31mred\u001b[0m", "context": "a\u0000b"}')
    kept = as_recorded(said, Redactor(()))
    assert (kept.reason, kept.context) == ("red", "a\ufffdb")


@pytest.mark.parametrize("field", ["reason", "context", "answer", "text"])
def test_no_part_of_an_answer_keeps_a_secret(field: str) -> None:
    kept = as_recorded(HookResult(**{field: "say s3cr3t-value"}), Redactor(("s3cr3t-value",)))
    assert getattr(kept, field) == "say [secret]"
