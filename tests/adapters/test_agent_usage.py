"""What an agent used, from the events of its stream that the recordings don't have."""

import json
from typing import Any

import pytest

from agentforge.adapters.environment import secrets_in
from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.cli import CliAgent
from agentforge.adapters.providers.opencode import OPENCODE
from agentforge.ports.provider import ExecuteResult, Exit

COUNTS = {
    "inputTokens": 100,
    "outputTokens": 20,
    "cacheReadInputTokens": 1000,
    "cacheCreationInputTokens": 500,
    "costUSD": 0.25,
}


def read(cli: Any, *events: dict[str, Any]) -> ExecuteResult:
    output = "".join(f"{json.dumps(event)}\n" for event in events)
    return CliAgent(cli, {}).interpret(Exit(exit_code=0, signal=None, duration_ms=10, output=output))


def result(text: str, model: str = "claude-opus", **counts: Any) -> dict[str, Any]:
    used = {model: {**COUNTS, **counts}}
    common = {"subtype": "success", "is_error": False, "session_id": "abc"}
    return {"type": "result", **common, "result": text, "modelUsage": used}


def test_what_claude_puts_into_its_cache_is_input_too() -> None:
    usage = read(CLAUDE, result("done")).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (1600, 20, 1000)
    assert usage.cost_usd == 0.25


@pytest.mark.parametrize(
    ("model", "counts"),
    [("claude-opus", {"costBasis": "unknown"}), ("my-model", {}), ("x", {"costUSD": None})],
)
def test_a_price_that_claude_made_up_is_none(model: str, counts: dict[str, Any]) -> None:
    usage = read(CLAUDE, result("done", model, **counts)).usage
    assert usage is not None
    assert usage.cost_usd is None


def test_the_last_result_of_a_claude_that_was_woken_again_counts_and_what_it_used_adds_up() -> None:
    ended = read(CLAUDE, result("still waiting"), result("all done"))
    assert ended.output == "all done"
    assert ended.usage is not None
    assert ended.usage.output_tokens == 40


def test_what_opencode_puts_into_its_cache_is_input_too() -> None:
    tokens = {"input": 100, "output": 20, "reasoning": 5, "cache": {"read": 1000, "write": 500}}
    step = {
        "type": "step_finish",
        "sessionID": "abc",
        "part": {"reason": "stop", "tokens": tokens, "cost": 0.5},
    }
    usage = read(OPENCODE, {"type": "text", "sessionID": "abc", "part": {"text": "done"}}, step).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (1600, 25, 1000)


def test_a_secret_that_was_not_passed_on_is_one_all_the_same() -> None:
    inherited = {"DEPLOY_TOKEN": "sk-of-the-engine", "HOME": "/home/me"}
    given = {"MY_API_KEY": "sk-of-the-agent", "VAULT": "sk-by-its-name"}
    assert secrets_in(given, ("VAULT",), inherited=inherited) == (
        "sk-by-its-name",
        "sk-of-the-agent",
        "sk-of-the-engine",
    )
    assert secrets_in(given) == ("sk-of-the-agent",)
