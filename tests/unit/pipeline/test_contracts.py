"""Contracts: folders that say what a model is given and what it must return."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipeline.models import AGAIN, Models
from tests.unit.pipeline.states import state

import agentforge.cli.core
from agentforge import DefinitionError, InvalidRequest
from agentforge.core.contracts import execute_contract, find_contract
from agentforge.core.harness.minimal_context import ModelFailed
from agentforge.core.pipeline import ArtifactValidator, ContractStageExecutor, StageContext, StageStatus
from agentforge.testing.model_server import Fault, Script, Turn

ID = "my.title.v1"
STAGE = """
inputs: {artifact: [text]}
artifact: {schema: schema.json, fill: {title_id: id}}
"""
SCHEMA = {
    "title": "A title",
    "type": "object",
    "required": ["title"],
    "properties": {"title": {"type": "string"}},
}
DESIGN = {
    "intake": {"detected_scope": "bug_fix", "priority": "high", "initial_questions": [], "verdict": "clear"},
    "clarify": {"clarified_requirements": "All of it.", "scope_confirmed": True},
    "analyze": {
        "analysis": {"summary": "x"},
        "affected_files": [],
        "components": [{"name": "a", "type": "class"}],
    },
    "spec": {"components": [{"name": "a", "type": "class"}], "test_cases": [{"id": "TC001"}]},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path / "contracts" / ID)
    return tmp_path


def write(folder: Path, stage: str = STAGE) -> None:
    folder.mkdir(parents=True)
    (folder / "stage.yaml").write_text(stage)
    (folder / "prompt.md").write_text("Find a title.\n\n${BRIEFING}\n\nMore is in `${CTX}`.\n")
    (folder / "schema.json").write_text(json.dumps(SCHEMA))


def test_a_contract_is_its_inputs_its_prompt_and_its_schema(models: Models, project: Path) -> None:
    models.answer('```json\n{"title": "OAuth2"}\n```')
    found = execute_contract(ID, {"text": "Add OAuth2", "request_id": "REQ-1-a"}, project_path=project)
    assert found.items() >= {"title": "OAuth2", "request_id": "REQ-1-a"}.items()
    assert found["title_id"].startswith("TITLE-1-")
    (asked,) = models.requests
    assert asked.body is not None
    system = asked.body["system"][-1]["text"]
    assert system.startswith("Find a title.\n\n\n\nMore is in `the message`.")
    assert '"required": ["title"]' in system
    assert '"text": "Add OAuth2"' in asked.prompts[0]
    assert set(asked.tools) == {"read_file", "list_directory", "search_code"}


def test_it_is_also_imported_from_the_command_line() -> None:
    assert agentforge.cli.core.execute_contract is execute_contract


def test_missing_inputs_are_named(project: Path) -> None:
    with pytest.raises(InvalidRequest, match=f"contract {ID}: missing input fields: text"):
        execute_contract(ID, {"text": None}, project_path=project)


def test_an_answer_that_does_not_match_is_sent_back_once(models: Models, project: Path) -> None:
    models.answer('{"title": 7}', '{"title": "x"}')
    assert execute_contract(ID, {"text": "a"}, project_path=project)["title"] == "x"
    said = models.requests[1].prompts[-1]
    assert AGAIN in said
    assert "$.title" in said
    assert '{"title": 7}' in said


@pytest.mark.parametrize(
    ("answer", "problem"), [("Prose.", "no mapping was found"), ('{"title": 7}', r"\$\.title")]
)
def test_an_answer_that_never_matches_fails(models: Models, project: Path, answer: str, problem: str) -> None:
    models.answer(answer)
    with pytest.raises(ModelFailed, match=problem):
        execute_contract(ID, {"text": "a"}, project_path=project)
    executor = ContractStageExecutor("title", ID, {"text": "user_request"})
    result = executor.execute({}, state(), project)
    assert (result.status, result.artifact) == (StageStatus.FAILED, None)
    assert result.error is not None
    assert result.error.startswith(f"Contract execution failed: contract {ID}: the answer is not accepted")


def test_an_unknown_contract_is_refused(project: Path) -> None:
    for id in ("my.other.v1", "spec.nothing.v1", "nothing"):
        with pytest.raises(InvalidRequest, match=f"no contract '{id}'; searched contracts/{id}/") as refused:
            find_contract(id, project)
        assert "prompt.md" in refused.value.hint


def test_mistakes_in_the_folder_are_reported(project: Path) -> None:
    write(project / "contracts/my.broken.v1", "artifact: {schema: nowhere.json}\n")
    with pytest.raises(DefinitionError, match=r"contracts/my\.broken\.v1"):
        find_contract("my.broken.v1", project)


def test_a_hidden_folder_of_contracts_is_searched_too(project: Path) -> None:
    write(project / ".agentforge/contracts/my.hidden.v1")
    assert find_contract("my.hidden.v1", project).needs == ("text",)


def test_it_does_not_run_without_a_model() -> None:
    with pytest.raises(InvalidRequest, match="called directly"):
        execute_contract("spec.intake.v1", {}, use_api=False)


# -- the contracts of the product


def test_the_contracts_of_design_satisfy_their_transitions(models: Models, tmp_path: Path) -> None:
    artifact: dict[str, Any] = {"user_request": "Fix it."}
    stages = list(DESIGN)
    for stage, following in zip(stages, [*stages[1:], "red"], strict=True):
        models.answer(json.dumps(DESIGN[stage]))
        artifact |= execute_contract(f"spec.{stage}.v1", artifact, project_path=tmp_path)
        assert ArtifactValidator().validate_transition(stage, following, artifact).errors == []
    assert artifact["original_request"] == "Fix it."
    assert artifact["spec_id"].startswith("SPEC-")


# -- as a stage


def inputs(models: Models) -> Any:
    prompt = models.requests[-1].prompts[0]
    return json.loads(prompt[prompt.index("{") : prompt.rindex("}") + 1])


def execute(executor: ContractStageExecutor, project: Path, artifact: dict[str, Any], **changes: Any) -> Any:
    return executor.execute(artifact, state(**changes), project)


def test_defaults_never_replace_what_the_artifact_says(models: Models, project: Path) -> None:
    models.answer('{"title": "x"}')
    mapping = {"text": "user_request", "priority": "priority", "scope": "scope"}
    config = {"defaults": {"priority": "low", "scope": "small"}}
    execute(ContractStageExecutor("title", ID, mapping, config=config), project, {"priority": "high"})
    assert inputs(models).items() >= {"priority": "high", "scope": "small"}.items()


def test_none_maps_the_whole_artifact(models: Models, project: Path) -> None:
    models.answer('{"title": "x", "why": "y"}')
    executor = ContractStageExecutor("title", ID, {"text": "user_request", "all": None}, {"record": None})
    result = execute(executor, project, {"a": 1, "request_id": "REQ-1"})
    assert inputs(models)["all"] == {"a": 1, "request_id": "REQ-1"}
    assert result.artifact.items() >= {"a": 1, "title": "x", "why": "y", "request_id": "REQ-1"}.items()
    assert result.usage.input_tokens == 1000


def test_none_keeps_the_name_of_a_field(models: Models, project: Path) -> None:
    models.answer('{"title": "x", "why": "y"}')
    executor = ContractStageExecutor("title", ID, {"text": "user_request"}, {"why": None})
    assert execute(executor, project, {}).artifact == {"why": "y"}


def test_without_mappings_everything_is_passed_on(models: Models, project: Path) -> None:
    models.answer('{"title": "x"}')
    result = execute(ContractStageExecutor("title", ID), project, {"text": "a", "request_id": "REQ-1-a"})
    assert inputs(models).items() >= {"text": "a", "user_request": "Add OAuth2 authentication"}.items()
    assert result.artifact.items() >= {"text": "a", "title": "x", "request_id": "REQ-1-a"}.items()


def test_fields_that_a_mapping_lacks_are_named(models: Models, project: Path) -> None:
    models.answer('{"title": "x"}')
    executor = ContractStageExecutor("title", ID, {"text": "text", "scope": "scope"}, {"summary": "s"})
    assert (
        execute(executor, project, {}).error == "Contract execution failed: missing input fields: text, scope"
    )
    result = execute(executor, project, {"text": "a", "scope": "b"})
    assert result.error == "Contract execution failed: missing output fields: summary"


def test_feedback_is_passed_on(models: Models, project: Path) -> None:
    models.answer('{"title": "x"}')
    executor = ContractStageExecutor("title", ID, {"text": "user_request"})
    execute(executor, project, {}, pending_feedback="shorter", pending_artifact={"title": "long"})
    assert inputs(models).items() >= {"feedback": "shorter", "previous_attempt": {"title": "long"}}.items()


def test_a_failure_that_may_pass_is_raised(models: Models, project: Path) -> None:
    models.follow(Script((Turn("x"),), faults=(Fault(429, retry_after=3600),)))
    executor = ContractStageExecutor("title", ID, {"text": "user_request"})
    with pytest.raises(ModelFailed, match="rate limited"):
        executor.run(StageContext.from_pipeline_state(state(), "title", {}, project))
    assert executor.artifact_type == "title"
