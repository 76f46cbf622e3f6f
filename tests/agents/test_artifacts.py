"""Artifacts that real agents leave without writing a file."""

import pytest
from tests.agents.trial import PROMPT, RESULT, Trial

from agentforge.testing.model_server import Call, Script, Turn, Write
from agentforge.testing.provider_contract import ARTIFACT_SCHEMA, BAD_ARTIFACT, GOOD_ARTIFACT

pytestmark = pytest.mark.agents


def returning(*artifacts: dict[str, object]) -> Script:
    """A model that writes its result, and then gives the artifacts to the tool for structured output."""
    calls = (Turn("The artifact.", (Call("StructuredOutput", artifact),)) for artifact in artifacts)
    return Script((Turn("The result.", (Write("{result}", RESULT),)), *calls, Turn("Both are done.")))


def test_structured_output_of_claude_is_the_artifact(trial: Trial) -> None:
    if trial.cli.name != "claude":
        pytest.skip("contract: this CLI has no argument for a schema")
    result = trial.run(returning(GOOD_ARTIFACT), prompt=PROMPT, artifact=ARTIFACT_SCHEMA)
    assert result.completed, result.error
    assert trial.only("iteration_complete")["artifact"]["value"] == GOOD_ARTIFACT
    assert len(trial.facts("attempt_start")) == 1


def test_claude_has_its_model_correct_structured_output_that_does_not_match(trial: Trial) -> None:
    if trial.cli.name != "claude":
        pytest.skip("contract: this CLI has no argument for a schema")
    result = trial.run(returning(BAD_ARTIFACT, GOOD_ARTIFACT), artifact=ARTIFACT_SCHEMA)
    assert result.completed, result.error
    assert trial.only("iteration_complete")["artifact"]["value"] == GOOD_ARTIFACT
    assert trial.facts("error") == []
