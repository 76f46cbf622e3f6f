"""Results under a JSON Schema: shown to the model, validated, returned with the errors."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.api_tasks import WORK, Ran, task

from agentforge.model.failure import FailureKind
from agentforge.testing.model_server import Call, ModelServer, Script, Turn

NAMES = {
    "type": "object",
    "properties": {
        "names": {"type": "array", "items": {"$ref": "#/$defs/name"}, "minItems": 1},
        "count": {"type": "integer", "maximum": 3},
    },
    "required": ["names", "count"],
    "$defs": {"name": {"type": "string", "pattern": "^[a-z]+$"}},
}


def completes(**given: Any) -> Turn:
    return Turn("", (Call("complete", {"summary": "s", **given}),))


def test_result_that_fits_the_schema_is_the_artifact(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    good = {"names": ["a", "b"], "count": 2}
    outcome = Ran(
        task(model_server, Script((completes(result=good),)), wire_format, tmp_path, schema=NAMES)
    ).outcome
    assert outcome.failure is None
    assert outcome.artifact == good
    assert json.loads((tmp_path / "iteration/artifact.json").read_text()) == good


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"names": ["a"]}, '"count" is a required property'),
        ({"names": [], "count": 1}, "$.names: [] has less than 1 item"),
        ({"names": ["A"], "count": 1}, '$.names[0]: "A" does not match'),
        ({"names": ["a"], "count": 4}, "$.count: 4 is greater than the maximum of 3"),
        ("text", 'is not of type "object"'),
        (None, "'result' is a required property"),
    ],
)
def test_invalid_result_is_returned_with_its_errors(
    model_server: ModelServer, wire_format: str, tmp_path: Path, bad: Any, says: str
) -> None:
    wrong = completes() if bad is None else completes(result=bad)
    script = Script((wrong, completes(result={"names": ["a"], "count": 1})))
    outcome = Ran(task(model_server, script, wire_format, tmp_path, schema=NAMES)).outcome
    assert outcome.failure is None
    assert outcome.artifact == {"names": ["a"], "count": 1}
    assert says in outcome.tool_calls[0].result
    assert any(says in text.replace('\\"', '"') for text in model_server.requests("t")[-1].results)


def test_result_that_never_fits_is_invalid_after_a_few_tries(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    turns = (completes(result={}),) * 9
    outcome = Ran(task(model_server, Script(turns), wire_format, tmp_path, schema=NAMES)).outcome
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.RESULT_INVALID
    assert len(model_server.requests("t")) == 4
    assert not (tmp_path / "iteration/result.json").exists()


def test_text_instead_of_the_structured_result_is_sent_back(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    outcome = Ran(
        task(model_server, Script((Turn("Only text."),)), wire_format, tmp_path, schema=NAMES)
    ).outcome
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.RESULT_INVALID


NODE = {
    "type": "object",
    "properties": {"child": {"$ref": "#/$defs/node"}, "name": {"type": "string"}},
    "required": ["name"],
}
NAMED = {"type": "object", "required": ["name"]}
DESCRIBED = {
    "recursive": {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    "with a condition": {
        "type": "object",
        "if": {"required": ["child"]},
        "then": {"properties": {"child": {"$ref": "#/$defs/named"}}},
        "$defs": {"named": NAMED},
    },
}


@pytest.mark.parametrize("kind", DESCRIBED)
def test_schema_whose_references_are_not_followed_is_described_as_text_and_still_enforced(
    model_server: ModelServer, wire_format: str, tmp_path: Path, kind: str
) -> None:
    tree = DESCRIBED[kind]
    script = Script(
        (
            completes(result={"name": "a", "child": {}}),
            completes(result={"name": "a", "child": {"name": "b"}}),
        )
    )
    outcome = Ran(task(model_server, script, wire_format, tmp_path, schema=tree)).outcome
    assert outcome.failure is None
    assert outcome.artifact == {"name": "a", "child": {"name": "b"}}
    assert '$.child: "name" is a required property' in outcome.tool_calls[0].result


def test_artifact_of_a_stage_that_never_fits_is_invalid(model_server: ModelServer, tmp_path: Path) -> None:
    turns = (completes(result={"names": "a"}),) * 9
    given = task(model_server, Script(turns), "openai", tmp_path, schema=NAMES, is_artifact=True)
    outcome = Ran(given).outcome
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.ARTIFACT_INVALID
    assert not (tmp_path / "iteration/artifact.json").exists()


def test_reporting_an_error_needs_no_result(model_server: ModelServer, tmp_path: Path) -> None:
    script = Script((completes(decision="error", reason="nothing to plan"),))
    outcome = Ran(task(model_server, script, "openai", tmp_path, schema=NAMES)).outcome
    assert (outcome.failure, outcome.artifact) == (None, None)


def test_asking_a_person_needs_no_result(model_server: ModelServer, wire_format: str, tmp_path: Path) -> None:
    script = Script((completes(decision="ask", questions=[{"question": "Which names?"}]),))
    outcome = Ran(task(model_server, script, wire_format, tmp_path, schema=NAMES)).outcome
    assert (outcome.failure, outcome.artifact) == (None, None)
    result = json.loads((tmp_path / "iteration/result.json").read_text())
    assert result["questions"] == [{"question": "Which names?"}]


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"type": "object", "properties": 1}])
def test_invalid_schema_fails_before_the_first_request(
    model_server: ModelServer, tmp_path: Path, schema: dict[str, Any]
) -> None:
    outcome = Ran(task(model_server, WORK, "openai", tmp_path, schema=schema)).outcome
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.PROVIDER_MISSING
    assert "is not a valid JSON Schema" in outcome.failure.message
    assert model_server.requests("t") == ()
