"""The mock provider: the contract, the fixtures' order, and the MOCK_* variables."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from agentforge.adapters.providers.mock import (
    RESPONSE,
    MockConfig,
    MockProvider,
    is_mock_mode,
    mock_delay,
    mock_response,
    write_mock_outcome,
    write_mock_result,
    write_mock_status,
)
from agentforge.engine.normalise import normalise_result
from agentforge.model.errors import InvalidRequest, ProviderUnusable
from agentforge.model.failure import FailureKind
from agentforge.model.result import Decision, Result
from agentforge.ports.provider import ExecuteRequest, Provider
from agentforge.testing.provider_contract import LeaveArtifacts, MakeRequest, ProviderContract, run


class TestMockContract(ProviderContract):
    @pytest.fixture
    def provider(self) -> Provider:
        return MockProvider({})

    @pytest.fixture
    def slow_config(self) -> dict[str, Any]:
        return {"delay": 300}

    @pytest.fixture
    def leaving(self, tmp_path: Path) -> LeaveArtifacts:
        def fixtures(first: Any, *others: Any) -> tuple[Provider, dict[str, Any]]:
            (tmp_path / "artifact.json").write_text(json.dumps((*others, first)[0]))
            if others:
                (tmp_path / "artifact-1-attempt-1.json").write_text(json.dumps(first))
            return MockProvider({"MOCK_FIXTURES_DIR": str(tmp_path)}), {}

        return fixtures


@pytest.fixture
def fixtures(tmp_path: Path) -> Path:
    folder = tmp_path / "fixtures"
    folder.mkdir()
    return folder


@pytest.fixture
def request_for(tmp_path: Path) -> MakeRequest:
    def make(**fields: Any) -> ExecuteRequest:
        given: dict[str, Any] = {
            "prompt": "",
            "model": "",
            "config": {},
            "workdir": str(tmp_path),
            "environment": {},
            "status_path": str(tmp_path / "status.json"),
            "result_path": str(tmp_path / "result.json"),
        }
        return ExecuteRequest(**{**given, **fields})

    return make


def outcome(request: ExecuteRequest) -> Result:
    """What the engine makes of the files that the mock left."""
    texts = [
        Path(path).read_text() if Path(path).exists() else None
        for path in (request.result_path, request.status_path)
    ]
    result = normalise_result(*texts)
    assert isinstance(result, Result)
    return result


def test_without_fixtures_the_default_response_and_result(request_for: MakeRequest) -> None:
    request = request_for(iteration=3)
    assert run(MockProvider({}).execute(request)).output == RESPONSE
    result = outcome(request)
    assert result.summary == "Mock iteration 3 completed"
    assert result.signals.notes == result.reason == "Mock execution - more work simulated"
    assert result.decision is Decision.CONTINUE
    assert not Path(request.status_path).exists()


def test_response_order_iteration_then_default_then_built_in(fixtures: Path) -> None:
    config = MockConfig(str(fixtures))
    assert mock_response(1, config) == RESPONSE
    (fixtures / "default.txt").write_text("default\n")
    assert mock_response(1, config) == "default\n"
    (fixtures / "iteration-1.txt").write_text("first\n")
    assert (mock_response(1, config), mock_response(2, config)) == ("first\n", "default\n")
    assert mock_response(1, MockConfig(str(fixtures), responses={1: "override"})) == "override"


def test_outcome_order_result_n_then_result_then_status_n_then_status(
    fixtures: Path, request_for: MakeRequest
) -> None:
    seen = []
    for name in ("status.json", "status-1.json", "result.json", "result-1.json"):
        (fixtures / name).write_text(json.dumps({"summary": name}))
        request = request_for()
        write_mock_outcome(request.status_path, request.result_path, 1, MockConfig(str(fixtures)))
        seen.append(outcome(request).summary)
    assert seen == ["status.json", "status-1.json", "result.json", "result-1.json"]


def test_a_status_fixture_is_written_as_status_so_that_its_decision_counts(
    fixtures: Path, request_for: MakeRequest
) -> None:
    (fixtures / "status-2.json").write_text('{"decision": "stop", "reason": "All work complete"}')
    request = request_for(iteration=2, environment={"MOCK_FIXTURES_DIR": str(fixtures)})
    run(MockProvider({}).execute(request))
    assert not Path(request.result_path).exists()
    assert (outcome(request).decision, outcome(request).reason) == (Decision.STOP, "All work complete")


def test_write_mock_status_and_result_without_fixtures(tmp_path: Path) -> None:
    write_mock_status(str(tmp_path / "s.json"), 4)
    write_mock_result(str(tmp_path / "r.json"), 4)
    assert json.loads((tmp_path / "s.json").read_text())["decision"] == "continue"
    assert json.loads((tmp_path / "r.json").read_text())["summary"] == "Mock iteration 4 completed"


def test_a_malformed_result_fixture_is_written_unchanged(fixtures: Path, tmp_path: Path) -> None:
    (fixtures / "result.json").write_text("{broken")
    write_mock_result(str(tmp_path / "r.json"), 1, MockConfig(str(fixtures)))
    assert (tmp_path / "r.json").read_text() == "{broken"


def test_a_folder_named_like_the_provider_comes_first(fixtures: Path) -> None:
    (fixtures / "codex").mkdir()
    (fixtures / "codex" / "default.txt").write_text("codex\n")
    (fixtures / "iteration-1.txt").write_text("anybody\n")
    assert mock_response(1, MockConfig(str(fixtures), provider="codex")) == "codex\n"
    assert mock_response(1, MockConfig(str(fixtures), provider="claude")) == "anybody\n"
    assert mock_response(1, MockConfig(str(fixtures / "codex"), provider="..")) == "codex\n"


def test_the_mock_variables_say_iteration_provider_and_files(
    fixtures: Path, request_for: MakeRequest, tmp_path: Path
) -> None:
    (fixtures / "codex").mkdir()
    (fixtures / "codex" / "iteration-7.txt").write_text("seventh of codex\n")
    exported = {
        "MOCK_STATUS_FILE": str(tmp_path / "s7.json"),
        "MOCK_RESULT_FILE": str(tmp_path / "r7.json"),
        "MOCK_ITERATION": "7",
        "MOCK_PROVIDER": "codex",
    }
    provider = MockProvider({"MOCK_FIXTURES_DIR": str(fixtures)})
    assert run(provider.execute(request_for(environment=exported))).output == "seventh of codex\n"
    assert json.loads((tmp_path / "r7.json").read_text())["summary"] == "Mock iteration 7 completed"
    assert not (tmp_path / "result.json").exists()


def test_the_config_of_the_replaced_provider_is_ignored(
    request_for: MakeRequest, caplog: pytest.LogCaptureFixture
) -> None:
    request = request_for(config={"argv": ["claude"], "delay": "long", "timeout": 5})
    with caplog.at_level(logging.WARNING):
        result = run(MockProvider({"MOCK_MODE": "true"}).execute(request))
    assert (result.failure, caplog.records) == (None, [])


def test_config_by_code_and_by_stage(request_for: MakeRequest) -> None:
    provider = MockProvider({}, config=MockConfig(responses={1: "by code"}))
    assert run(provider.execute(request_for())).output == "by code"
    assert run(provider.execute(request_for(config={"responses": {"1": "by stage"}}))).output == "by stage"


@pytest.mark.parametrize(
    ("value", "is_mock"), [("true", True), ("TRUE", True), ("false", False), ("", False)]
)
def test_mock_mode(value: str, is_mock: bool) -> None:
    assert is_mock_mode({"MOCK_MODE": value}) is is_mock
    assert not is_mock_mode({})


@pytest.mark.parametrize(("value", "seconds"), [("0.5", 0.5), ("2", 2.0), ("", 0.0)])
def test_mock_delay(value: str, seconds: float) -> None:
    assert mock_delay({"MOCK_DELAY": value}) == seconds
    assert mock_delay({}) == 0


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf"])
def test_an_invalid_mock_delay_is_rejected(value: str) -> None:
    with pytest.raises(InvalidRequest, match="MOCK_DELAY"):
        mock_delay({"MOCK_DELAY": value})


def test_validate_names_a_missing_fixtures_folder(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnusable, match="nowhere"):
        MockProvider({"MOCK_FIXTURES_DIR": str(tmp_path / "nowhere")}).validate()


def test_a_place_that_cannot_be_written_is_a_failure(request_for: MakeRequest, tmp_path: Path) -> None:
    result = run(MockProvider({}).execute(request_for(result_path=str(tmp_path / "no" / "folder.json"))))
    assert result.failure is not None
    assert result.failure.kind is FailureKind.PROVIDER_CRASHED
    assert "folder.json" in result.failure.message


def test_mock_judge_without_a_fixture_continues_the_stage() -> None:
    answer = json.loads(mock_response(1, MockConfig(provider="judge")))
    assert answer["stop"] is False
    assert mock_response(1, MockConfig(provider="claude")) == RESPONSE


@pytest.fixture
def artifact_request(request_for: MakeRequest, fixtures: Path, tmp_path: Path) -> MakeRequest:
    def make(**fields: Any) -> ExecuteRequest:
        given = {"MOCK_FIXTURES_DIR": str(fixtures)}
        path = str(tmp_path / "artifact.json")
        return request_for(**{"artifact_path": path, "environment": given, "stage": "plan", **fields})

    return make


def artifact_of(request: ExecuteRequest) -> str | None:
    Path(request.artifact_path).unlink(missing_ok=True)
    assert run(MockProvider({}).execute(request)).failure is None
    return Path(request.artifact_path).read_text() if Path(request.artifact_path).exists() else None


def test_the_most_specific_artifact_fixture_is_written(artifact_request: MakeRequest, fixtures: Path) -> None:
    names = [
        f"{name}.json"
        for stage in ("artifact", "artifact-plan")
        for name in (stage, f"{stage}-1", f"{stage}-1-attempt-2")
    ]
    for name in names:
        (fixtures / name).write_text(name)
        assert artifact_of(artifact_request(attempt=2)) == name
    assert artifact_of(artifact_request()) == "artifact-plan-1.json"
    assert artifact_of(artifact_request(iteration=2)) == "artifact-plan.json"
    assert artifact_of(artifact_request(stage="review", iteration=2)) == "artifact.json"


def test_a_stage_s_name_leads_to_no_other_folder(artifact_request: MakeRequest, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("secret")
    (tmp_path / "fixtures/artifact-").mkdir()
    assert artifact_of(artifact_request(stage="/../../secret")) is None


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, {}),
        (
            {
                "type": "object",
                "required": ["text", "count", "ready", "none", "one", "word", "set", "given", "in"],
                "properties": {
                    "text": {"type": "string"},
                    "count": {"type": "integer", "minimum": 2},
                    "ready": {"type": "boolean"},
                    "none": {"type": ["null", "string"]},
                    "one": {"type": "array", "minItems": 1, "items": {"type": "number"}},
                    "word": {"enum": ["a", "b"]},
                    "set": {"const": 7},
                    "given": {"default": "yes"},
                    "in": {"type": "object", "required": ["any"]},
                    "left": {"type": "string"},
                },
            },
            {
                "text": "mock",
                "count": 2,
                "ready": False,
                "none": None,
                "one": [0],
                "word": "a",
                "set": 7,
                "given": "yes",
                "in": {"any": "mock"},
            },
        ),
        ({"type": "object", "required": ["id"], "properties": {"id": {"pattern": "^[0-9]+$"}}}, None),
        (
            {"type": "object", "required": ["x"], "properties": {"x": {"minItems": 9**9, "type": "array"}}},
            None,
        ),
        ({"type": "array"}, None),
        ({"type": "nonsense"}, None),
        (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"anyOf": [{"const": 1}, {"const": 2}]}},
                "$defs": {"x": {"type": "object", "required": ["n"], "properties": {"n": {"const": 3}}}},
            },
            {"a": {"n": 3}, "b": 1},
        ),
        # Without an end, and twice as large with each level.
        (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}},
            },
            None,
        ),
    ],
)
def test_without_a_fixture_a_simple_schema_is_satisfied(
    artifact_request: MakeRequest, schema: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    written = artifact_of(artifact_request(schema=schema))
    assert (written and json.loads(written)) == expected


def test_a_stage_without_an_artifact_gets_none(request_for: MakeRequest, fixtures: Path) -> None:
    (fixtures / "artifact.json").write_text("{}")
    request = request_for(environment={"MOCK_FIXTURES_DIR": str(fixtures)})
    assert run(MockProvider({}).execute(request)).failure is None
    assert sorted(path.name for path in fixtures.parent.iterdir()) == ["fixtures", "result.json"]
