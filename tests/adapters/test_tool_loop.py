"""The tool loop of the provider api, in both formats, against a scripted model on loopback."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.adapters.api_tasks import DONE, WORK, WRITES, Ran, task

from agentforge.engine.normalise import normalise_result
from agentforge.model.result import AgentQuestion, Decision, Result
from agentforge.testing.model_server import Call, ModelServer, Script, Tokens, Turn
from agentforge.tool_loop.task import ExtraTool, TextSaid, ToolCall, ToolCalled


def test_task_is_done_with_tools_and_completed(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    ran = Ran(task(model_server, WORK, wire_format, tmp_path))
    outcome = ran.outcome
    assert (outcome.failure, outcome.text, outcome.steps) == (None, "all done", 2)
    assert (tmp_path / "work/hello.txt").read_text() == "hello\n"
    result = json.loads((tmp_path / "iteration/result.json").read_text())
    assert (result["summary"], result["decision"]) == ("all done", "stop")
    assert result["work"]["files_touched"] == ["hello.txt"]
    assert outcome.tool_calls == (
        ToolCall("write_file", {"path": "hello.txt", "content": "hello\n"}, "wrote hello.txt (6 bytes)"),
        ToolCall("complete", {"summary": "all done", "decision": "stop"}, "recorded"),
    )
    assert [event.text for event in ran.of(TextSaid)] == ["I write it.", "Done."]
    assert [event.name for event in ran.of(ToolCalled)] == ["write_file", "complete"]


def test_usage_is_summed_and_priced(model_server: ModelServer, wire_format: str, tmp_path: Path) -> None:
    usage = Ran(task(model_server, WORK, wire_format, tmp_path)).outcome.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (2000, 100)
    assert usage.cost_usd is not None
    assert 0 < usage.cost_usd < 0.1


@pytest.mark.parametrize("changes", [{"priced": False}, {"model": "nobody-knows-it-7b"}])
def test_a_model_without_a_price_has_no_cost(
    model_server: ModelServer, wire_format: str, tmp_path: Path, changes: dict[str, Any]
) -> None:
    work = task(model_server, WORK, wire_format, tmp_path)
    usage = Ran(replace(work, endpoint=replace(work.endpoint, **changes))).outcome.usage
    assert usage is not None
    assert usage.input_tokens == 2000
    assert usage.cost_usd is None


def test_cached_tokens_are_counted_with_the_input(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    script = replace(WORK, usage=Tokens(input=1000, output=50, cached=400))
    usage = Ran(task(model_server, script, wire_format, tmp_path)).outcome.usage
    assert usage is not None
    assert usage.cached_tokens == 800
    # Anthropic counts what was cached apart; for us it is part of the input.
    assert usage.input_tokens == (2800 if wire_format == "anthropic" else 2000)


def test_text_alone_is_a_result_too(model_server: ModelServer, wire_format: str, tmp_path: Path) -> None:
    outcome = Ran(task(model_server, Script((Turn("It is all fine."),)), wire_format, tmp_path)).outcome
    assert (outcome.failure, outcome.text) == (None, "It is all fine.")
    result = json.loads((tmp_path / "iteration/result.json").read_text())
    assert (result["summary"], result["decision"]) == ("It is all fine.", "continue")


def test_without_the_tool_complete_only_the_callers_tools_end_it(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    plain = task(
        model_server, Script((Turn("All fine."),)), wire_format, tmp_path, has_complete=False, tools=()
    )
    assert Ran(plain).outcome.text == "All fine."
    assert model_server.requests("t", asides=True)[-1].tools == ()
    submits = Script((Turn("", (Call("submit", {"a": 1}),)),))
    own = (ExtraTool("submit", ends=True),)
    ended = Ran(
        task(model_server, submits, wire_format, tmp_path, has_complete=False, extra_tools=own)
    ).outcome
    assert ended.tool_calls == (ToolCall("submit", {"a": 1}, "recorded"),)
    assert "complete" not in model_server.requests("t", asides=True)[-1].tools


def test_tool_errors_go_back_to_the_model(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    calls = (
        Call("read_file", {"path": "/etc/passwd"}),
        Call("read_file", {"path": 7}),
        Call("edit_file", {"path": "none"}),
        Call("run_command", {"command": "rm -rf ."}),
        Call("list_directory", {"path": "none", "more": 1}),
    )
    ran = Ran(task(model_server, Script((Turn("", calls), DONE)), wire_format, tmp_path))
    assert ran.outcome.failure is None
    said = [call.result for call in ran.outcome.tool_calls[:-1]]
    assert len(said) == 5
    assert all(text.startswith("error: ") for text in said), said
    assert "outside the workspace" in said[0]
    assert '7 is not of type "string"' in said[1]
    assert model_server.requests("t")[-1].results == tuple(said)


@pytest.mark.parametrize("call", [Call("no_such_tool", {"a": 1}), Call("read_file", [1, 2])])  # type: ignore[arg-type]
def test_calls_that_are_none_do_not_end_the_loop(
    model_server: ModelServer, wire_format: str, tmp_path: Path, call: Call
) -> None:
    ran = Ran(task(model_server, Script((Turn("", (call,)), WRITES, DONE)), wire_format, tmp_path))
    assert ran.outcome.failure is None
    assert (tmp_path / "work/hello.txt").exists()


def test_extra_tool_is_recorded_and_answered_and_the_loop_continues(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    asks = Turn("", (Call("ask", {"question": "why"}), Call("note", {"text": "n"})))
    ask = ExtraTool("ask", "Ask.", {"type": "object", "properties": {"question": {"type": "string"}}})
    work = task(
        model_server, Script((asks, DONE)), wire_format, tmp_path, extra_tools=(ask, ExtraTool("note"))
    )
    outcome = Ran(work, handlers={"ask": lambda question: f"{question}? Because."}).outcome
    assert outcome.failure is None
    assert outcome.tool_calls[:2] == (
        ToolCall("ask", {"question": "why"}, "why? Because."),
        ToolCall("note", {"text": "n"}, "recorded"),
    )


def test_handler_error_is_returned_to_the_model(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    script = Script((Turn("", (Call("ask"),)), DONE))
    work = task(model_server, script, wire_format, tmp_path, extra_tools=(ExtraTool("ask"),))
    outcome = Ran(work, handlers={"ask": lambda: 1 / 0}).outcome
    assert outcome.failure is None
    assert outcome.tool_calls[0].result == "error: ZeroDivisionError: division by zero"


def test_extra_tool_called_complete_ends_the_loop_in_place_of_ours(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "string"}}, "required": ["spec"]}
    wrong, right = Turn("", (Call("complete", {}),)), Turn("", (Call("complete", {"spec": "x"}),))
    work = task(
        model_server,
        Script((wrong, right)),
        wire_format,
        tmp_path,
        tools=(),
        extra_tools=(ExtraTool("complete", "End.", schema, ends=True),),
    )
    outcome = Ran(work).outcome
    assert outcome.failure is None
    assert model_server.requests("t")[0].tools == ("complete",)
    assert [call.tool_name for call in outcome.tool_calls] == ["complete", "complete"]
    assert '"spec" is a required property' in outcome.tool_calls[0].result
    assert outcome.tool_calls[-1] == ToolCall("complete", {"spec": "x"}, "recorded")


QUESTIONS = [
    {"id": "db", "question": "Which database?", "options": ["sqlite", "postgres"], "default": "sqlite"},
    {"question": "Keep the log?", "default": "yes", "blocking": False},
]


def test_questions_to_a_person_are_in_the_result(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    ask = {"summary": "two questions", "decision": "ask", "questions": QUESTIONS}
    script = Script((Turn("", (Call("complete", ask),)),))
    outcome = Ran(task(model_server, script, wire_format, tmp_path)).outcome
    assert outcome.failure is None
    written = (tmp_path / "iteration/result.json").read_text()
    result = normalise_result(written, None)
    assert isinstance(result, Result)
    assert (result.decision, result.errors) == (Decision.ASK, ())
    assert result.asked == (
        AgentQuestion("db", "Which database?", ("sqlite", "postgres"), "sqlite"),
        AgentQuestion("q1", "Keep the log?", default="yes", blocking=False),
    )


def test_verdict_is_one_of_those_of_the_task_and_in_the_result(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    given = [
        {"summary": "reviewed", "verdict": word, "reason": "slow", "items": ["s2"]}
        for word in ("awful", "blocking")
    ]
    script = Script(tuple(Turn("", (Call("complete", each),)) for each in given))
    work = task(
        model_server, script, wire_format, tmp_path, verdicts=("pass", "blocking"), returns_items=True
    )
    assert Ran(work).outcome.failure is None
    written = json.loads((tmp_path / "iteration/result.json").read_text())
    assert (written["verdict"], written["reason"], written["items"]) == ("blocking", "slow", ["s2"])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "the decision 'ask' needs 'questions'"),
        ({"questions": []}, "$.questions: [] has less than 1 item"),
        ({"questions": ["Which database?"]}, '$.questions[0]: "Which database?" is not of type "object"'),
        ({"questions": [{"id": "db"}]}, '$.questions[0]: "question" is a required property'),
    ],
)
def test_model_corrects_a_call_that_asks_nothing(
    model_server: ModelServer, tmp_path: Path, wrong: dict[str, Any], says: str
) -> None:
    ask = Turn("", (Call("complete", {"summary": "s", "decision": "ask", **wrong}),))
    outcome = Ran(task(model_server, Script((ask, DONE)), "openai", tmp_path)).outcome
    assert (outcome.failure, outcome.text) == (None, "all done")
    assert says in outcome.tool_calls[0].result


def test_questions_with_another_decision_are_not_in_the_result(
    model_server: ModelServer, tmp_path: Path
) -> None:
    stop = {"summary": "s", "decision": "stop", "questions": QUESTIONS}
    Ran(task(model_server, Script((Turn("", (Call("complete", stop),)),)), "openai", tmp_path))
    assert "questions" not in json.loads((tmp_path / "iteration/result.json").read_text())


def test_system_prompt_tells_how_to_ask_a_person(model_server: ModelServer, tmp_path: Path) -> None:
    Ran(task(model_server, WORK, "anthropic", tmp_path))
    (request, *_) = model_server.requests("t")
    assert 'call `complete` with the decision\n"ask" and your questions' in request.body["system"][0]["text"]
