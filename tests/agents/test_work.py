"""Real agents: their work, output and usage."""

import json

import pytest
from msgspec.structs import replace
from tests.agents.trial import WRITES, Trial

from agentforge.testing.model_server import Script, Tokens, Turn

pytestmark = pytest.mark.agents


def test_agent_writes_files_with_its_own_tools(trial: Trial) -> None:
    result = trial.run(WRITES)
    assert result.completed, result.error
    assert (trial.project / "hello.txt").read_text() == "hello\n"
    done = trial.only("iteration_complete")
    assert (done["decision"], done["reason"]) == ("stop", "all done")
    assert json.loads((trial.run_dir / done["result_file"]).read_text())["summary"] == "written by the agent"
    assert [len(seen.calls) for seen in trial.requests()] == [1, 1, 0]


def test_output_is_the_agents_text_without_its_protocol(trial: Trial) -> None:
    assert trial.run(WRITES).completed
    assert "Both files are written." in trial.output()
    assert '"type"' not in trial.output()


def test_usage_and_the_agent_s_session_are_recorded(trial: Trial) -> None:
    script = replace(WRITES, usage=Tokens(1000, 50))
    assert trial.run(script).completed
    usage = trial.only("iteration_complete")["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (3000, 150), "three requests"
    assert usage["agent_session"]
    assert usage["model"]


def test_agent_that_only_prints_text_leaves_no_result(trial: Trial) -> None:
    result = trial.run(Script((Turn("I'd rather not."),)))
    assert result.error_type == "result_missing"
    assert trial.only("error")["agent_session"]


def test_request_of_the_agent_contains_the_prompt_and_the_key(trial: Trial) -> None:
    trial.run(WRITES)
    first = trial.requests()[0]
    assert "Then write your result to /" in "\n".join(first.prompts)
    assert "test-key" in " ".join(first.headers.values())
