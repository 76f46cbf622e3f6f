"""Real agents whose model fails: every failure has its kind, and takes seconds."""

import pytest
from msgspec.structs import replace
from tests.agents.trial import PATIENCE, WRITES, Trial

from agentforge.testing.model_server import FOREVER, Fault, Script

pytestmark = pytest.mark.agents


def failing(*faults: Fault) -> Script:
    return replace(WRITES, faults=faults)


def test_agent_gets_over_two_rate_limits(trial: Trial) -> None:
    result = trial.run(failing(Fault(429, times=2, retry_after=1)))
    assert result.completed, result.error
    assert [seen.status for seen in trial.requests()] == [429, 429, 200, 200, 200]
    assert trial.facts("error") == []


def test_endless_rate_limit_is_one(trial: Trial) -> None:
    result = trial.run(failing(Fault(429, retry_after=1)))
    assert result.error_type == "provider_rate_limited", result.error
    assert not trial.has("hello.txt")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "provider_auth"), (500, "provider_overloaded"), (529, "provider_overloaded")],
)
def test_refusal_of_the_model_is_classified(trial: Trial, status: int, kind: str) -> None:
    # OpenCode's own patience would take more than a minute.
    hurry = 1 if trial.cli.name == "opencode" else None
    result = trial.run(failing(Fault(status, retry_after=hurry)))
    assert result.error_type == kind, result.error


def test_unreachable_model_server_is_reported(trial: Trial) -> None:
    """Codex waits for the network as long as it may, and OpenCode for minutes."""
    waits = trial.cli.name in ("codex", "opencode")
    result = trial.run(WRITES, at="http://127.0.0.1:9", timeout=trial.cli.patience if waits else PATIENCE)
    assert result.error_type == ("iteration_timeout" if waits else "provider_unreachable"), result.error


def test_streams_cut_twice_are_got_over(trial: Trial) -> None:
    """By the CLI itself, or by another attempt of the engine: Gemini gives up at once."""
    result = trial.run(replace(WRITES, cuts=2), retry={"max_attempts": 3, "initial_delay": 0.1})
    assert result.completed, result.error
    assert (trial.project / "hello.txt").read_text() == "hello\n"
    assert [seen.ended for seen in trial.requests()].count("cut") == 2


def test_streams_that_miss_their_end_twice_are_got_over(trial: Trial) -> None:
    script = replace(WRITES, cuts=2, cuts_neatly=True)
    result = trial.run(script, retry={"max_attempts": 3, "initial_delay": 0.1})
    assert result.completed, result.error


def test_streams_that_are_always_cut_fail(trial: Trial) -> None:
    """OpenCode asks again for ever, so that the stage's own limit has to end it."""
    asks_on = trial.cli.name == "opencode"
    result = trial.run(replace(WRITES, cuts=FOREVER), timeout=15 if asks_on else PATIENCE)
    assert result.error_type == ("iteration_timeout" if asks_on else "provider_unreachable"), result.error
    assert not trial.has("hello.txt")


def test_slow_model_is_waited_for(trial: Trial) -> None:
    result = trial.run(replace(WRITES, delay=1, drip=0.02))
    assert result.completed, result.error


@pytest.mark.parametrize("hang", ["before", "within"])
def test_model_that_hangs_is_ended_by_the_stage_s_timeout(trial: Trial, hang: str) -> None:
    patience = trial.cli.patience
    result = trial.run(replace(WRITES, hang=hang), timeout=patience)
    assert (result.error_type, result.error) == (
        "iteration_timeout",
        f"the agent was ended after {patience:g} s",
    )
    assert trial.requests(), "it had asked"
