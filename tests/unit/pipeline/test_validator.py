"""What an artifact must have to go from one stage to the next."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.states import MAPPINGS, PLAIN

from agentforge import stage_contract
from agentforge.core.pipeline import ArtifactValidator, ValidationResult

STAGES = ("intake", "clarify", "analyze", "spec", "red", "green", "refactor", "deliver")
SPEC: dict[str, Any] = {"spec_id": "S", "components": [{"name": "a", "type": "class"}], "test_cases": []}
RED: dict[str, Any] = {"spec_id": "S", "test_files": ["t.py"], "test_results": {"failed": 2, "total": 2}}


def validate(from_stage: Any, to_stage: Any, artifact: Any) -> ValidationResult:
    return ArtifactValidator().validate_transition(from_stage, to_stage, artifact)


class TestArtifactValidator:
    def test_validates_required_fields(self) -> None:
        found = validate("intake", "clarify", {"request_id": "R", "initial_questions": None})
        assert found == ValidationResult(
            False, ["Missing required field: detected_scope"], ["Field initial_questions is None"]
        )

    @pytest.mark.parametrize(
        ("components", "problem"),
        [
            (None, "Spec must have at least one component"),
            ([], "Spec must have at least one component"),
            ({"a": 1}, "Field components must be a list, not dict"),
            (["name-type"], "Component 0 must be a mapping, not str"),
            ([{"name": "a"}], "Component 0 missing 'type'"),
            ([{"name": "a", "type": "b"}, {"name": None, "type": "b"}], "Component 1 missing 'name'"),
        ],
    )
    def test_spec_artifact_requires_components(self, components: Any, problem: str) -> None:
        assert validate("spec", "red", SPEC).valid
        assert validate("spec", "red", {**SPEC, "components": components}).errors == [problem]

    @pytest.mark.parametrize(
        ("results", "problems"),
        [
            ({"failed": 1}, []),
            ({"errors": 1, "passed": 0}, []),
            ({"failed": 1, "passed": 1}, ["RED phase tests should fail initially"]),
            (
                {"passed": 2, "total": 2},
                ["RED phase tests should fail initially", "RED phase must have at least one failing test"],
            ),
            ({"skipped": 1, "total": 1}, ["RED phase must have at least one failing test"]),
            ({}, ["No tests were executed"]),
            ({"failed": "many"}, ["No tests were executed"]),
            (None, ["No tests were executed"]),
            ("all red", ["Field test_results must be a mapping, not str"]),
        ],
    )
    def test_red_artifact_requires_failing_tests(self, results: Any, problems: list[str]) -> None:
        assert validate("red", "green", {**RED, "test_results": results}).errors == problems
        without = validate("red", "green", {**RED, "test_results": results, "test_files": []}).errors
        assert without == ["RED phase must produce at least one test file", *problems]


@pytest.mark.parametrize("artifact", [None, [], "text", 7])
def test_what_is_not_a_mapping_is_not_valid(artifact: Any) -> None:
    found = validate("intake", "clarify", artifact)
    assert (found.valid, len(found.errors)) == (False, 1)
    assert found.errors[0].startswith("Artifact must be a mapping, not ")


def test_other_transitions_need_nothing() -> None:
    assert validate("a", "b", {}) == ValidationResult(True)
    assert validate(None, ["b"], {}) == ValidationResult(True)


def test_a_transition_needs_what_the_next_stage_itself_names() -> None:
    found = ArtifactValidator.TRANSITION_REQUIREMENTS
    assert len(found) == len(list(found)) == 8
    for (_, to_stage), fields in found.items():
        if to_stage in ("clarify", "analyze", "spec"):
            assert set(stage_contract(to_stage).needs) <= set(fields)
    assert found["refactor", "deliver"] == ["spec_id", "final_files"]


@pytest.mark.parametrize("stage", ["intake", "clarify", "analyze"])
def test_the_schemas_of_the_stages_have_what_the_next_one_needs(stage: str) -> None:
    # The pipeline fills one field of the artifact of intake.
    properties = {
        *stage_contract(stage).schema["properties"],
        *(["clarified_requirements"] * (stage == "intake")),
    }
    for (from_stage, _), fields in ArtifactValidator.TRANSITION_REQUIREMENTS.items():
        assert from_stage != stage or set(fields) <= properties


@given(st.sampled_from(STAGES), st.sampled_from(STAGES), PLAIN | MAPPINGS)
def test_no_artifact_raises(from_stage: str, to_stage: str, artifact: Any) -> None:
    validate(from_stage, to_stage, artifact)


@given(st.sampled_from(["spec", "red"]), PLAIN, PLAIN, PLAIN)
def test_no_part_of_an_artifact_raises(stage: str, one: Any, other: Any, third: Any) -> None:
    fields = {"components": one, "test_cases": other, "test_files": other, "test_results": third}
    validate(stage, "green", fields)
    validate(stage, "green", {"components": [one], "test_results": {"passed": one, "failed": other}})
