"""Interpretation of the CLIs' output, on recorded output of the real ones.

The recordings in streams/ are of the real programs against a scripted model server, without machine paths.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.cli import CliAgent
from agentforge.adapters.providers.codex import CODEX
from agentforge.adapters.providers.gemini import GEMINI
from agentforge.adapters.providers.opencode import OPENCODE
from agentforge.model.failure import FailureKind as K
from agentforge.model.result import Usage
from agentforge.model.spending import Amount
from agentforge.model.state import Spending
from agentforge.ports.provider import ExecuteResult, Exit, ShowsProgress

STREAMS = Path(__file__).parent / "streams"
AGENTS = {cli.name: CliAgent(cli, {}) for cli in (CLAUDE, CODEX, OPENCODE, GEMINI)}
NOW = datetime(2026, 11, 15, 9, 5, 30, tzinfo=UTC)
DONE = "All done: hello.txt and result.json are written."


def recorded(case: str, code: int | None, **more: Any) -> Exit:
    """A recording with how the program ended; a negative code is the signal that ended it."""
    errors = STREAMS / f"{case}.err"
    return Exit(
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        duration_ms=10,
        output=(STREAMS / f"{case}.jsonl").read_text(),
        errors=errors.read_text() if errors.exists() else "",
        ended_at=NOW,
        **more,
    )


def read(case: str, code: int | None, **more: Any) -> ExecuteResult:
    return AGENTS[case.partition("/")[0]].interpret(recorded(case, code, **more))


@pytest.mark.parametrize(
    ("case", "words", "used"),
    [
        ("claude/write", DONE, (3000, 150, 0, 0.01125)),
        ("claude/usage", DONE, (4200, 150, 1200, 0.01161)),
        ("claude/flaky429", DONE, (3000, 150, 0, 0.01125)),
        ("claude/tool_failed", "The command failed.", (2000, 100, 0, 0.0075)),
        ("claude/artifact", "Here is the plan.", (2000, 100, 0, 0.0075)),
        ("claude/artifact_missing", "Only text.", (2000, 100, 0, 0.0075)),
        ("claude/unknown_model", DONE, (3000, 150, 0, None)),
        ("codex/usage", DONE, (3000, 150, 1200, None)),
        ("codex/tool_failed", "The command failed.", (2000, 100, 0, None)),
        ("codex/unknown_model", DONE, (3000, 150, 0, None)),
        ("opencode/usage", DONE, (3000, 150, 1200, 0.00765)),
        ("opencode/tool_failed", "The command failed.", (2000, 100, 0, 0.0075)),
        ("gemini/usage", DONE, (3000, 150, 1200, None)),
        ("gemini/tool_failed", "The command failed.", (2000, 100, 0, None)),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_a_last_event_of_success_counts_whatever_the_exit_status(
    case: str, code: int, words: str, used: tuple[int, int, int, float | None]
) -> None:
    result = read(case, code)
    assert (result.failure, result.exit_code, result.output) == (None, 0, words)
    usage = result.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == used[:3]
    assert usage.cost_usd == (None if used[3] is None else pytest.approx(used[3]))
    assert usage.agent_session


@pytest.mark.parametrize("case", ["claude/text", "codex/text", "opencode/text", "gemini/text"])
def test_success_of_an_agent_killed_by_a_signal_is_a_failure(case: str) -> None:
    assert read(case, 0).failure is None
    failure = read(case, -9).failure
    assert failure is not None
    assert (failure.kind, "ended by signal 9" in failure.message) == (K.PROVIDER_CRASHED, True)


@pytest.mark.parametrize(
    ("case", "code", "kind", "says"),
    [
        ("claude/err400", 1, K.PROVIDER_CRASHED, "API Error: 400 fake fault 400"),
        ("claude/err401", 1, K.PROVIDER_AUTH, "401"),
        ("claude/err403", 1, K.PROVIDER_AUTH, "403"),
        ("claude/no_key", 1, K.PROVIDER_AUTH, "Not logged in"),
        ("claude/org_disabled", 1, K.PROVIDER_AUTH, "disabled Claude subscription access"),
        ("claude/err404", 1, K.PROVIDER_MISSING, "selected model (claude-sonnet-4-5)"),
        ("claude/err429", 1, K.PROVIDER_RATE_LIMITED, "429"),
        ("claude/err500", 1, K.PROVIDER_OVERLOADED, "500"),
        ("claude/err529", 1, K.PROVIDER_OVERLOADED, "529"),
        ("claude/credit", 1, K.PROVIDER_QUOTA, "Credit balance is too low"),
        ("claude/usage_limit", 1, K.PROVIDER_QUOTA, "5-hour limit"),
        ("claude/artifact_refused", 1, K.ARTIFACT_INVALID, "/steps: must be array"),
        ("claude/unreachable", 1, K.PROVIDER_UNREACHABLE, "ECONNREFUSED"),
        ("claude/cut", 1, K.PROVIDER_UNREACHABLE, "Connection lost"),
        ("claude/too_long", 1, K.PROVIDER_CRASHED, "Prompt is too long"),
        ("claude/max_turns", 1, K.AGENT_LIMIT, "maximum number of turns (1)"),
        ("claude/budget", 1, K.AGENT_LIMIT, "maximum budget ($0.001)"),
        ("claude/denied", 0, K.PERMISSION_DENIED, "Bash, Write"),
        ("claude/session_gone", 1, K.PROVIDER_CRASHED, "No conversation found"),
        ("claude/root", 1, K.PROVIDER_CRASHED, "root/sudo privileges"),
        ("codex/err400", 1, K.PROVIDER_CRASHED, "Codex: fake fault 400"),
        ("codex/err401", 1, K.PROVIDER_AUTH, "401 Unauthorized"),
        ("codex/err403", 1, K.PROVIDER_AUTH, "403 Forbidden"),
        ("codex/no_key", 1, K.PROVIDER_AUTH, "Missing environment variable"),
        ("codex/not_included", 1, K.PROVIDER_AUTH, "upgrade to Plus"),
        ("codex/err404", 1, K.PROVIDER_CRASHED, "404 Not Found"),
        ("codex/err429", 1, K.PROVIDER_RATE_LIMITED, "429 Too Many Requests"),
        ("codex/err500", 1, K.PROVIDER_OVERLOADED, "high demand"),
        ("codex/err503", 1, K.PROVIDER_OVERLOADED, "503 Service Unavailable"),
        ("codex/insufficient_quota", 1, K.PROVIDER_QUOTA, "Quota exceeded"),
        ("codex/usage_limit", 1, K.PROVIDER_QUOTA, "hit your usage limit"),
        ("codex/cut", 1, K.PROVIDER_UNREACHABLE, "stream disconnected"),
        ("codex/unreachable", -9, K.PROVIDER_UNREACHABLE, "error sending request"),
        ("codex/session_gone", 1, K.PROVIDER_CRASHED, "no rollout found"),
        ("codex/bad_flag", 2, K.PROVIDER_CRASHED, "codex exited with status 2: error: unexpected argument"),
        ("opencode/err400", 1, K.PROVIDER_CRASHED, "fake fault 400"),
        ("opencode/err401", 1, K.PROVIDER_AUTH, "fake fault 401"),
        ("opencode/err403", 1, K.PROVIDER_AUTH, "fake fault 403"),
        ("opencode/err404", 1, K.PROVIDER_CRASHED, "fake fault 404"),
        ("opencode/err429", 1, K.PROVIDER_RATE_LIMITED, "fake fault 429"),
        ("opencode/credit", 1, K.PROVIDER_QUOTA, "credit balance is too low"),
        ("opencode/too_long", 1, K.PROVIDER_CRASHED, "prompt is too long"),
        ("opencode/unknown_model", 1, K.PROVIDER_CRASHED, "`provider/model`"),
        ("opencode/session_gone", 1, K.PROVIDER_CRASHED, "status 1: Error: Session not found"),
        ("gemini/err400", 144, K.PROVIDER_CRASHED, "Gemini: fake fault 400"),
        ("gemini/err401", 145, K.PROVIDER_AUTH, "fake fault 401"),
        ("gemini/err403", 147, K.PROVIDER_AUTH, "fake fault 403"),
        ("gemini/no_key", 41, K.PROVIDER_AUTH, "GEMINI_API_KEY"),
        ("gemini/err404", 1, K.PROVIDER_CRASHED, "fake fault 404"),
        ("gemini/err429", 173, K.PROVIDER_RATE_LIMITED, "fake fault 429"),
        ("gemini/err500", 244, K.PROVIDER_OVERLOADED, "fake fault 500"),
        ("gemini/cut", 0, K.PROVIDER_UNREACHABLE, "without a finish reason"),
        ("gemini/broken", 1, K.PROVIDER_UNREACHABLE, "terminated"),
        ("gemini/unreachable", -9, K.PROVIDER_UNREACHABLE, "fetch failed"),
        ("gemini/session_gone", 42, K.PROVIDER_CRASHED, "Invalid session identifier"),
        ("gemini/untrusted", 55, K.PERMISSION_DENIED, "trusted directory"),
    ],
)
def test_failures_are_classified(case: str, code: int, kind: K, says: str) -> None:
    result = read(case, code)
    assert result.failure is not None
    assert (result.failure.kind, says in result.failure.message) == (kind, True), result.failure
    assert result.exit_code != 0
    if kind is K.PROVIDER_AUTH:
        # No model answered, so there is no cost, not an unknown one.
        assert Spending().plus(result.usage) == Spending()


@pytest.mark.parametrize(
    ("budget", "arguments", "kind"),
    [
        (None, [], K.AGENT_LIMIT),
        (Amount(tokens=9), [], K.AGENT_LIMIT),
        (Amount(0.001), [], K.CAP_REACHED),
        (Amount(0.001), ["--max-budget-usd", "0.001"], K.CAP_REACHED),
        (Amount(0.001), ["--max-budget-usd=0.0009"], K.AGENT_LIMIT),
        (Amount(0.001), ["--max-budget-usd", "cheap"], K.CAP_REACHED),
    ],
)
def test_agent_that_used_up_its_budget_is_at_a_cap_unless_its_settings_say_less(
    budget: Amount | None, arguments: list[str], kind: K
) -> None:
    result = read("claude/budget", 1, budget=budget, config={"arguments": arguments})
    assert result.failure is not None
    assert result.failure.kind is kind
    assert result.usage is not None
    assert result.usage.cost_usd == pytest.approx(0.00375)


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("claude/interrupted", 0),
        ("claude/terminated", 143),
        ("codex/interrupted", 1),
        ("gemini/interrupted", 0),
        ("opencode/cut", -9),
    ],
)
def test_a_stream_without_its_last_event_is_a_failure_that_keeps_the_session(case: str, code: int) -> None:
    result = read(case, code)
    assert result.failure is not None
    assert (result.failure.kind, result.exit_code != 0) == (K.PROVIDER_CRASHED, True)
    assert "the stream ended early" in result.failure.message
    assert ("early, by signal 9" in result.failure.message) is (code == -9)
    assert result.usage is not None
    assert result.usage.agent_session
    if case == "claude/terminated":
        assert Spending().plus(result.usage).unpriced == ("unnamed model",)


@pytest.mark.parametrize("case", ["claude/usage", "codex/usage", "gemini/usage", "opencode/usage"])
def test_a_stream_cut_anywhere_is_never_a_success(case: str) -> None:
    whole = recorded(case, 0)
    lines = whole.output.splitlines(keepends=True)
    agent = AGENTS[case.partition("/")[0]]
    for kept in range(1, len(lines)):
        for text in ("".join(lines[:kept]), "".join(lines[:kept]) + lines[kept][:40]):
            result = agent.interpret(Exit(0, None, 10, text))
            assert result.failure is not None, (kept, text[-200:])
            assert result.usage is not None
            assert result.usage.agent_session


def test_an_error_that_codex_got_over_is_not_why_it_stopped() -> None:
    lines = recorded("codex/usage", 0).output.splitlines(keepends=True)[:4]
    error = '{"type":"error","message":"Reconnecting... 1/5 (stream disconnected before completion)"}\n'
    over = AGENTS["codex"].interpret(Exit(1, None, 1, "".join([lines[0], error, *lines[1:]]))).failure
    last = AGENTS["codex"].interpret(Exit(1, None, 1, "".join([*lines, error]))).failure
    assert over is not None
    assert last is not None
    assert (over.kind, last.kind) == (K.PROVIDER_CRASHED, K.PROVIDER_UNREACHABLE)


@pytest.mark.parametrize("case", ["claude/usage", "codex/usage", "gemini/usage", "opencode/usage"])
def test_exit_status_decides_for_a_truncated_stream(case: str) -> None:
    text = "".join(recorded(case, 0).output.splitlines(keepends=True)[:3])
    agent = AGENTS[case.partition("/")[0]]
    kept = agent.interpret(Exit(0, None, 10, text, truncated=True))
    assert (kept.failure, kept.exit_code) == (None, 0)
    assert kept.usage is not None
    assert kept.usage.agent_session
    for code, signal in ((1, None), (None, 9)):
        failure = agent.interpret(Exit(code, signal, 10, text, truncated=True)).failure
        assert failure is not None
        assert failure.kind is K.PROVIDER_CRASHED


@pytest.mark.parametrize(
    "case", ["claude/session_gone", "codex/session_gone", "opencode/session_gone", "gemini/session_gone"]
)
def test_a_lost_session_is_not_reported_again(case: str) -> None:
    usage = read(case, 1).usage
    assert usage is None or usage.agent_session is None


def test_a_gemini_session_without_an_answer_cannot_be_resumed() -> None:
    usage = read("gemini/broken", 1).usage
    assert usage is not None
    assert usage.agent_session is None


# -- usage


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (None, (6000, 300, 2400)),
        (Usage(input_tokens=3000, output_tokens=150, cached_tokens=1200), (3000, 150, 1200)),
        (Usage(input_tokens=3000), (3000, 300, 2400)),
        (Usage(input_tokens=9000, output_tokens=900, cached_tokens=9000), (0, 0, 0)),
    ],
)
def test_codex_counts_for_the_whole_thread_become_those_of_the_run(
    before: Usage | None, expected: tuple[int, int, int]
) -> None:
    usage = read("codex/resume", 0, before=before).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == expected


@pytest.mark.parametrize("case", ["claude/resume", "gemini/resume"])
def test_a_resumed_session_of_the_others_counts_this_run_alone(case: str) -> None:
    before = Usage(input_tokens=4200, output_tokens=150, cached_tokens=1200, cost_usd=0.01161)
    first = read(case.replace("resume", "usage"), 0).usage
    again = read(case, 0, before=before).usage
    assert first is not None
    assert again is not None
    assert (again.input_tokens, again.output_tokens, again.cost_usd) == (
        first.input_tokens,
        first.output_tokens,
        first.cost_usd,
    )


def test_older_claude_without_counts_by_run_is_read_too() -> None:
    text = (STREAMS / "claude/usage.jsonl").read_text().replace("model_usage_since_last_result", "older")
    usage = AGENTS["claude"].interpret(Exit(0, None, 1, text)).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cost_usd) == (4200, pytest.approx(0.01161))


@pytest.mark.parametrize(
    ("case", "asked", "model"),
    [
        ("claude/text", "opus", "claude-sonnet-4-5"),
        ("codex/text", "gpt-5-codex:low", "gpt-5-codex"),
        ("codex/text", "", "gpt-5.5"),
        ("opencode/text", "anthropic/claude:high", "anthropic/claude"),
        ("opencode/text", "", None),
        ("gemini/text", "", "gemini-2.5-pro"),
    ],
)
def test_the_model_is_the_reported_or_the_requested_one(case: str, asked: str, model: str | None) -> None:
    usage = read(case, 0, model=asked).usage
    assert usage is not None
    assert usage.model == model


def test_a_price_that_opencode_does_not_know_is_absent() -> None:
    text = (STREAMS / "opencode/text.jsonl").read_text().replace('"cost":0.00375', '"cost":0')
    usage = AGENTS["opencode"].interpret(Exit(0, None, 1, text)).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cost_usd) == (1000, None)


# -- limits


@pytest.mark.parametrize(
    ("case", "ends"),
    [
        ("claude/usage_limit", datetime(2026, 11, 15, 11, 5, 29, tzinfo=UTC)),
        ("claude/err429", None),
        ("claude/credit", None),
        ("claude/err500", None),
    ],
)
def test_end_of_a_limit_is_read_from_the_stream(case: str, ends: datetime | None) -> None:
    failure = read(case, 1).failure
    assert failure is not None
    assert failure.resets_at == ends


def test_end_of_a_codex_limit_is_read_from_its_message() -> None:
    """It names a time of the day on this machine."""
    failure = read("codex/usage_limit", 1).failure
    assert failure is not None
    assert failure.resets_at is not None
    local = failure.resets_at.astimezone()
    assert (local.hour, local.minute) == (11, 5)


# -- permissions


@pytest.mark.parametrize(
    ("mode", "fails"),
    [
        ("default", True),
        ("acceptEdits", True),
        ("plan", True),
        ("bypassPermissions", False),
        ("dontAsk", False),
    ],
)
def test_denied_tools_of_claude_fail_in_interactive_modes(mode: str, fails: bool) -> None:
    text = (STREAMS / "claude/denied.jsonl").read_text()
    text = text.replace('"permissionMode":"default"', f'"permissionMode":"{mode}"')
    failure = AGENTS["claude"].interpret(Exit(0, None, 1, text)).failure
    assert (failure is not None) is fails
    if failure:
        assert "`permissions` in the provider's config" in failure.message


# -- what isn't a stream


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_plain_text_is_judged_by_the_exit_status(name: str) -> None:
    agent = AGENTS[name]
    for text in ("done\n", '{"stop": false, "reason": "none"}\n', '{"argv": ["a"]}\n', "", "{broken\n"):
        result = agent.interpret(Exit(0, None, 1, text))
        assert (result.failure, result.exit_code, result.output) == (None, 0, text)
    failure = agent.interpret(Exit(3, None, 1, "so\nError: no such thing\n  at x\n")).failure
    assert failure is not None
    assert failure.message == f"{name} exited with status 3: Error: no such thing"
    assert (failure.kind, failure.exit_code) == (K.PROVIDER_CRASHED, 3)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_errors_of_a_program_that_printed_nothing_else_are_its_output(name: str) -> None:
    result = AGENTS[name].interpret(Exit(1, None, 1, "", errors="Not logged in\n"))
    assert result.output == "Not logged in\n"
    assert result.failure is not None
    assert result.failure.kind is K.PROVIDER_AUTH


@pytest.mark.parametrize("name", sorted(AGENTS))
@pytest.mark.parametrize("noise", ['{"type": 7}', '{"type":"result"}', "[1]", '{"type":"error"}', "\x00{"])
def test_no_line_breaks_the_readers(name: str, noise: str) -> None:
    case = recorded(f"{name}/usage", 0)
    result = AGENTS[name].interpret(Exit(0, None, 1, f"{noise}\n{case.output}"))
    assert result.failure is None
    for broken in (noise, f"{noise}\n{noise}"):
        AGENTS[name].interpret(Exit(1, None, 1, broken))
        AGENTS[name].progress(broken)


# -- what people see


@pytest.mark.parametrize(
    ("case", "shown"),
    [
        (
            "claude/write",
            [
                "I will create hello.txt.",
                "→ Bash: printf 'hello from the fake model\\n' > hello.txt",
                "Now result.json.",
                "→ Write: /project/result.json",
                DONE,
            ],
        ),
        (
            "codex/usage",
            [
                "I will create hello.txt.",
                "→ shell: printf 'hello from the fake model\\\\n' > hello.txt",
                "Now result.json.",
                "→ edit: /project/result.json",
                DONE,
            ],
        ),
        (
            "opencode/usage",
            [
                "I will create hello.txt.",
                "→ bash: printf 'hello from the fake model\\n' > hello.txt",
                "Now result.json.",
                "→ write: /project/result.json",
                DONE,
            ],
        ),
        (
            "gemini/usage",
            [
                "I will create hello.txt.",
                "→ run_shell_command: printf 'hello from the fake model\\n' > hello.txt",
                "Now result.json.",
                "→ write_file: /project/result.json",
                DONE,
            ],
        ),
        (
            "claude/flaky429",
            ["… retrying: rate_limit 429", "… retrying: rate_limit 429"],
        ),
        (
            "codex/err429",
            [
                "… retrying: exceeded retry limit, last status: 429 Too Many Requests",
                "✗ exceeded retry limit, last status: 429 Too Many Requests",
            ],
        ),
        ("opencode/err401", ["✗ fake fault 401"]),
        ("gemini/err401", ["✗ fake fault 401"]),
        ("codex/tool_failed", ["→ shell: echo oops >&2; exit 3", "✗ exit 3: echo oops >&2; exit 3"]),
    ],
)
def test_output_lines_are_shown_as_text(case: str, shown: list[str]) -> None:
    agent = AGENTS[case.partition("/")[0]]
    assert isinstance(agent, ShowsProgress)
    lines = recorded(case, 0).output.splitlines()
    said = [words for line in lines if (words := agent.progress(line))]
    assert said[: len(shown)] == shown
    assert not any("{" in words for words in said)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_a_line_that_is_not_an_event_is_shown_unchanged(name: str) -> None:
    assert AGENTS[name].progress("hello\n") == "hello"
    assert len(AGENTS[name].progress("x" * 1000)) == 160


@pytest.mark.parametrize(
    ("case", "guidance"),
    [
        ("claude/no_key", "run `claude` once and log in, or set ANTHROPIC_API_KEY"),
        ("codex/err401", "run `codex login`, or set CODEX_API_KEY"),
        ("opencode/err401", "run `opencode auth login`, or set ANTHROPIC_API_KEY"),
        ("gemini/err401", "run `gemini` once and log in, or set GEMINI_API_KEY"),
    ],
)
def test_authentication_failure_has_login_instructions(case: str, guidance: str) -> None:
    failure = read(case, 1).failure
    assert failure is not None
    assert failure.message.endswith(f"; {guidance}")


@pytest.mark.parametrize(
    ("case", "artifact"),
    [("artifact", {"steps": ["a"]}), ("artifact_missing", None), ("artifact_refused", None)],
)
def test_structured_output_is_the_artifact(case: str, artifact: Any) -> None:
    assert read(f"claude/{case}", 0).artifact == artifact


@pytest.mark.parametrize("returned", [None, [], "text", 1])
def test_structured_output_must_be_an_object(returned: Any) -> None:
    event = {"type": "result", "subtype": "success", "result": "said", "structured_output": returned}
    result = AGENTS["claude"].interpret(Exit(0, None, 10, f"{json.dumps(event)}\n"))
    assert (result.artifact, result.output) == (None, "said")
