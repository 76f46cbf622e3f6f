"""The shapes of a cassette: what is found in it, and what is refused with its line."""

import json
import re
from typing import Any

import pytest

from agentforge.model.cassette import (
    Cassette,
    Delete,
    Exchange,
    ExchangeQuery,
    Header,
    WriteFile,
    encode_line,
    parse_cassette,
    parse_exchange,
)
from agentforge.model.errors import ProviderUnusable

HEADER = '{"format": "agentforge-cassette", "version": 1}'


def cassette(*exchanges: dict[str, Any]) -> Cassette:
    lines = [HEADER, *(json.dumps({"stage": "plan", "iteration": 1, **fields}) for fields in exchanges)]
    return parse_cassette("\n".join(lines), "c.jsonl")


def refused(text: str) -> str:
    with pytest.raises(ProviderUnusable) as caught:
        parse_cassette(text, "c.jsonl")
    return str(caught.value.message)


def test_lines_come_back_as_they_were_written() -> None:
    header, exchange = Header("agentforge-cassette", 1, name="n"), Exchange("plan", 2, branch="claude")
    text = (encode_line(header) + b"\n" + encode_line(exchange)).decode()
    assert parse_cassette(text, "c.jsonl") == Cassette(header, (exchange,))


def test_exchange_that_says_most_about_what_it_is_for_is_found() -> None:
    played = cassette({}, {"attempt": 2}, {"branch": "claude"}, {"kind": "judge"}, {"iteration": 3})
    assert played.find(ExchangeQuery("plan", 1)) == played.exchanges[0]
    assert played.find(ExchangeQuery("plan", 1, attempt=2)) == played.exchanges[1]
    assert played.find(ExchangeQuery("plan", 1, branch="claude")) == played.exchanges[2]
    assert played.find(ExchangeQuery("plan", 1, kind="judge")) == played.exchanges[3]
    assert played.find(ExchangeQuery("plan", 2)) is None
    assert played.find(ExchangeQuery("build", 1)) is None


def test_look_at_the_queue_is_answered_by_such_a_look_only() -> None:
    assert cassette({}).find(ExchangeQuery("plan", 1, kind="queue")) is None
    look = {"kind": "queue", "remaining": 3, "iteration": 0}
    found = cassette(look).find(ExchangeQuery("plan", 0, kind="queue"))
    assert found is not None
    assert found.remaining == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n \n", "c.jsonl:1: empty; the first line must be the header"),
        ("\n[]", "c.jsonl:2: "),
        ('{"format": "other", "version": 1}', "the header must look like"),
        (
            '{"format": "agentforge-cassette", "version": 99}',
            "version 99 is not supported (newest: 1)",
        ),
        ("[" * 100_000, "c.jsonl:1: "),
    ],
)
def test_header_that_is_none(text: str, says: str) -> None:
    assert says in refused(text)


def test_every_error_is_listed_with_its_line() -> None:
    once = '{"stage": "plan", "iteration": 1}'
    again = '{"stage": "plan", "iteration": 1, "attempt": 2}'
    assert refused("\n".join([HEADER, once, "", "{", once, again, again])).splitlines() == [
        "c.jsonl:4: Input data was truncated",
        "c.jsonl:5: stage 'plan', iteration 1 is already recorded on an earlier line",
        "c.jsonl:7: stage 'plan', iteration 1, attempt 2 is already recorded on an earlier line",
    ]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"iteration": 0}, "Expected `int` >= 1 - at `$.iteration`"),
        ({"remaining": 2}, "`remaining` is required for exchanges of kind `queue`"),
        (
            {"kind": "queue"},
            "`remaining` is required for exchanges of kind `queue`",
        ),
        ({"kind": "check"}, "`check` is required for exchanges of kind `check`"),
        ({"check": "test"}, "`check` is required for exchanges of kind `check`"),
        ({"kind": "answer"}, "`answer` is required for exchanges of kind `answer`"),
        ({"answer": {"reason": "approval", "answer": "approve"}}, "not allowed otherwise"),
        ({"kind": "answer", "answer": {"answer": "approve"}}, "missing required field `reason`"),
        ({"kind": "answer", "answer": {"reason": "", "answer": "x"}}, "Expected `str` of length >= 1"),
        ({"steps": [{"do": "delete", "path": "/etc/x"}]}, "is outside the workdir - at `$.steps[0].path`"),
        ({"steps": [{"do": "delete", "path": "a/../../x"}]}, "is outside the workdir"),
        ({"steps": [{"do": "append", "path": "a\0", "text": ""}]}, "is outside the workdir"),
        (
            {"steps": [{"do": "write", "path": "a"}]},
            "`text` or `base64`, not both - at `$.steps[0]`",
        ),
        (
            {"steps": [{"do": "write", "path": "a", "text": "", "base64": ""}]},
            "give either `text` or `base64`",
        ),
        ({"steps": [{"do": "say", "text": "x"}, {"do": "result"}]}, "not both - at `$.steps[1]`"),
        ({"steps": [{"do": "status", "value": {}, "text": ""}]}, "give either `value` or `text`, not both"),
        ({"steps": [{"do": "artifact"}]}, "give either `value` or `text`, not both"),
    ],
)
def test_exchange_that_contradicts_itself(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_exchange(json.dumps({"stage": "plan", "iteration": 1, **fields}))


def test_answers_are_told_apart_by_what_they_are_about() -> None:
    def line(reason: str, **more: Any) -> str:
        answer = {"reason": reason, "answer": "approve", "by": "alice", **more}
        return json.dumps({"stage": "plan", "iteration": 0, "kind": "answer", "answer": answer})

    lines = [HEADER, line("checkpoint", subject="go"), line("checkpoint", subject="stop"), line("approval")]
    cassette = parse_cassette("\n".join(lines), "c")
    assert [exchange.about for exchange in cassette.exchanges] == [
        "checkpoint:go",
        "checkpoint:stop",
        "approval:",
    ]
    assert cassette.find(ExchangeQuery("plan", 0)) is None
    again = line("approval").replace('"kind"', '"made": 2, "kind"')
    assert parse_cassette("\n".join([*lines, again]), "c").exchanges[-1].about == "approval::2"
    with pytest.raises(ProviderUnusable, match="already recorded on an earlier line"):
        parse_cassette("\n".join([*lines, lines[-1]]), "c")


def test_steps_that_are_sound() -> None:
    steps = [
        {"do": "write", "path": "a/b", "text": "x"},
        {"do": "edit", "path": "a/b", "old": "x", "new": "y"},
        {"do": "result", "value": {"summary": "x"}},
        {"do": "status", "text": "x"},
        {"do": "artifact", "value": {}},
        {"do": "exit", "code": 3},
    ]
    parsed = parse_exchange(json.dumps({"stage": "plan", "iteration": 1, "steps": steps}))
    assert len(parsed.steps) == len(steps)


@pytest.mark.parametrize(
    "path", [".git/hooks/x", "sub/.git/config", ".GIT/x", ".claude/stages/a", ".agentforge/x"]
)
@pytest.mark.parametrize("do", ["write", "append", "delete", "edit"])
def test_a_step_below_a_protected_folder_is_an_error(path: str, do: str) -> None:
    fields = {"write": {"text": ""}, "append": {"text": ""}, "delete": {}, "edit": {"old": "a", "new": "b"}}
    line = {"stage": "s", "iteration": 1, "steps": [{"do": do, "path": path, **fields[do]}]}
    with pytest.raises(ValueError, match="a replay must not write below"):
        parse_exchange(json.dumps(line))


def test_commands_and_changed_files_are_listed() -> None:
    steps = [
        {"do": "run", "argv": ["make", "x"]},
        {"do": "write", "path": "a", "text": "1"},
        {"do": "run", "argv": ["make", "x"]},
        {"do": "delete", "path": "a"},
        {"do": "say", "text": "done"},
    ]
    found = cassette({"steps": steps})
    assert found.commands == [("make", "x")]
    assert found.file_steps == {"a": [WriteFile(path="a", text="1"), Delete(path="a")]}


def test_calls_of_hooks_are_told_apart_by_hook_and_delivery() -> None:
    def line(kind: str = "hook", **hook: str) -> str:
        given = {"hook": hook} if hook else {}
        return json.dumps({"stage": "plan", "iteration": 0, "kind": kind, **given})

    calls = [line(id="a", delivery="1"), line(id="a", delivery="2"), line(id="b")]
    cassette = parse_cassette("\n".join([HEADER, *calls]), "c")
    assert [exchange.about for exchange in cassette.exchanges] == ["a:1", "a:2", "b:"]
    assert cassette.find(ExchangeQuery("plan", 0)) is None
    for wrong in (line(), line("queue", id="a").replace("{", '{"remaining": 1, ', 1)):
        with pytest.raises(ProviderUnusable, match="`hook` is required for exchanges of kind `hook`"):
            parse_cassette("\n".join([HEADER, wrong]), "c")


def test_exchange_of_a_check_is_about_the_check() -> None:
    assert Exchange("plan", 1, kind="check", check="test").key[-1] == "test"
