"""Hostile output of an agent is interpreted in linear time: a quadratic reader can't finish these sizes."""

import json

import pytest

from agentforge.adapters.cli_agents import outcome
from agentforge.adapters.cli_agents.description import AgentCli, OutputFields
from agentforge.adapters.cli_agents.stream import MESSAGE_CHARS
from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.cli import CliAgent
from agentforge.adapters.providers.codex import CODEX
from agentforge.adapters.providers.gemini import GEMINI
from agentforge.adapters.providers.opencode import OPENCODE
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import FailureKind as K
from agentforge.ports.provider import ExecuteResult, Exit

MB = 1 << 20


def read(cli: AgentCli, *events: object, errors: str = "", code: int = 1) -> ExecuteResult:
    output = "".join(event if isinstance(event, str) else f"{json.dumps(event)}\n" for event in events)
    return CliAgent(cli, {}).interpret(Exit(code, None, 1, output, errors))


@pytest.mark.parametrize("message", ["Reconnecting... " + word * (4 * MB) for word in ("( ", "a ")])
def test_codex_retries_forever(message: str) -> None:
    result = read(CODEX, {"type": "thread.started", "thread_id": "t"}, {"type": "error", "message": message})
    assert result.failure is not None
    assert len(result.failure.message) < 2 * MESSAGE_CHARS


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Reconnecting... 2/5 (stream disconnected (at 4 s))", "stream disconnected (at 4 s)"),
        ("Reconnecting... (high demand)", "high demand"),
    ],
)
def test_codex_shows_why_it_reconnects(message: str, shown: str) -> None:
    assert shown in CliAgent(CODEX, {}).progress(json.dumps({"type": "error", "message": message}))


def test_error_pattern_that_looks_ahead_in_a_long_output() -> None:
    cli = AgentCli(name="aider", error_patterns=(r"^litellm\.\w+(?![\s\S]*^(Retrying in|Tokens:))",))
    result = read(cli, "litellm.a\n" * (MB // 2))
    assert result.failure is not None
    assert result.failure.message == "aider exited with status 1: litellm.a"


@pytest.mark.parametrize(
    "cli",
    [
        AgentCli(name="mine", error_patterns=(r"^(a+)+$",)),
        AgentCli(name="mine", failures={"a?" * 45 + "a" * 50: K.PROVIDER_QUOTA}),
    ],
)
def test_pattern_of_exponential_time_is_an_error_and_not_a_hang(
    cli: AgentCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome, "PATTERN_SECONDS", 0.5)
    result = read(cli, "a" * 50 + "!\n")
    assert result.failure is not None
    assert result.failure.kind is K.OUTPUT_UNREADABLE
    assert "mine" in result.failure.message
    assert "pattern" in result.failure.message


def test_pieces_of_one_text_are_joined_once() -> None:
    fields = OutputFields(text="say", group="id")
    cli = AgentCli(name="mine", output="json_lines", fields=fields)
    line = json.dumps({"say": "ab" * 16, "id": "1"})
    result = read(cli, f"{line}\n" * 200_000, code=0)
    assert len(result.output) == 32 * 200_000


def test_pieces_of_a_group_are_one_text() -> None:
    fields = OutputFields(text="say", group="id")
    cli = AgentCli(name="mine", output="json_lines", fields=fields)
    said = [("a", "1"), ("b", "1"), ("c", ""), ("d", ""), ("e", "2"), ("f", "1"), ("g", "1")]
    result = read(cli, *({"say": text, "id": group} for text, group in said), {"error": 1}, code=0)
    assert result.output == "fg"


def test_deeply_nested_lists_on_a_path() -> None:
    cli = AgentCli(name="mine", output="json_lines", fields=OutputFields(text="say"))
    depth, leaves = 400, 400_000
    line = '{"say":' + "[" * depth + ",".join(['"x"'] * leaves) + "]" * depth + "}\n"
    assert len(read(cli, line, code=0).output) == leaves


@pytest.mark.parametrize(
    ("cli", "event"),
    [
        (CLAUDE, {"type": "result", "is_error": True, "result": "no " * (5 * MB)}),
        (CODEX, {"type": "turn.failed", "error": {"message": "no " * (5 * MB)}}),
        (OPENCODE, {"type": "error", "error": {"data": {"message": "no " * (5 * MB)}}}),
        (
            GEMINI,
            {"type": "result", "timestamp": 1, "status": "error", "error": {"message": "no " * (5 * MB)}},
        ),
    ],
)
def test_long_error_message_is_cut_before_it_is_matched(cli: AgentCli, event: object) -> None:
    result = read(cli, event)
    assert result.failure is not None
    assert len(result.failure.message) < 2 * MESSAGE_CHARS


@pytest.mark.parametrize("cli", [CLAUDE, CODEX, OPENCODE, GEMINI])
@pytest.mark.parametrize(
    "line", ["x" * (8 * MB), "\x1b[" * (4 * MB), "\n" * (8 * MB), "{" * (8 * MB), "[" * 9999]
)
def test_long_lines_that_are_not_events(cli: AgentCli, line: str) -> None:
    result = read(cli, line, errors=line)
    assert result.failure is not None
    assert len(result.failure.message) < 2 * MESSAGE_CHARS
    assert len(CliAgent(cli, {}).progress(line)) <= MESSAGE_CHARS


@pytest.mark.parametrize("cli", [CLAUDE, CODEX, OPENCODE, GEMINI])
def test_deeply_nested_line_is_not_an_event(cli: AgentCli) -> None:
    deep = '{"type":' + '{"a":' * 100_000
    assert read(cli, deep).failure is not None
    assert CliAgent(cli, {}).progress(deep)


def test_numbers_out_of_range_are_ignored() -> None:
    limit = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 10**30}}
    failed = {"type": "result", "is_error": True, "result": "usage limit", "session_id": "s"}
    result = read(CLAUDE, limit, failed)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.resets_at) == (K.PROVIDER_QUOTA, None)


@pytest.mark.parametrize(
    "pattern", ["(" * 5000 + ")" * 5000, "a{99999999999999}", "(", "a" * 5000, "[[a]", "[a--b]"]
)
def test_pattern_that_cannot_be_compiled_is_refused(pattern: str) -> None:
    with pytest.raises(ProviderUnusable, match="`error_patterns`"):
        CliAgent(AgentCli(name="mine", error_patterns=(pattern,)), {})


def test_line_separators_inside_json_do_not_end_a_line() -> None:
    line = json.dumps({"type": "result", "result": "a\u2028b"}, ensure_ascii=False)
    assert read(CLAUDE, f"{line}\r\n", code=0).output == "a\u2028b"
