"""What the artifacts of intake, clarify, analyze and spec must be like."""

from pathlib import Path
from typing import Any

import pytest
from tests.design.story import ARTIFACTS

from agentforge.adapters.host.project_files import FileSources
from agentforge.definition.compiler import compile_pipeline
from agentforge.model.artifact import ArtifactRule
from agentforge.system.schemas import JsonSchema

OUTPUT_FIELDS = {
    "intake": ["request_id", "detected_scope", "priority"],
    "clarify": ["request_id", "clarified_requirements", "scope_confirmed"],
    "analyze": ["request_id", "analysis", "affected_files", "components"],
    "spec": ["spec_id", "request_id", "components", "test_cases"],
}
BLOCKING = [{"question": "Which?", "priority": "blocking"}]


@pytest.fixture(scope="module")
def rules() -> dict[str, ArtifactRule]:
    plan = compile_pipeline(FileSources(Path(__file__).parent / "no-project", {}), "design", "x").plan
    return {stage.id: stage.artifact for stage in plan.stages if stage.artifact}


def test_the_fields_that_each_stage_has_to_leave(rules: dict[str, ArtifactRule]) -> None:
    assert {stage: rule.schema["required"] for stage, rule in rules.items()} == OUTPUT_FIELDS


@pytest.mark.parametrize(
    ("stage", "changes"),
    [(stage, {}) for stage in ARTIFACTS]
    + [
        *(
            ("intake", {"detected_scope": scope})
            for scope in ("bug_fix", "refactoring", "documentation", "testing", "unclear")
        ),
        ("intake", {"priority": "someday"}),
        ("intake", {"verdict": "pass", "initial_questions": BLOCKING}),
        (
            "intake",
            {"initial_questions": [{"question": "A?", "priority": "optional"}, {"question": "B?"}]},
        ),
        ("intake", {"detected_components": ["login", {"name": "session", "confidence": 0.5}]}),
        ("clarify", {"ready_for_analysis": False, "remaining_questions": [{"question": "Which icon?"}]}),
        ("clarify", {"refined_components": ["login", {"name": "x", "files_likely_affected": ["x.py"]}]}),
        ("analyze", {"affected_files": [], "components": []}),
        ("analyze", {"affected_files": [{"path": "app.py", "change_type": "modify", "reason": "calls it"}]}),
        ("spec", {"test_cases": [], "acceptance_criteria": []}),
        ("spec", {"interfaces": [{"name": "POST /login"}], "anything": "else"}),
    ],
)
def test_accepted(rules: dict[str, ArtifactRule], stage: str, changes: dict[str, Any]) -> None:
    assert mismatches(rules[stage], {**ARTIFACTS[stage], **changes}) == []


@pytest.mark.parametrize(
    ("stage", "changes", "where"),
    [
        ("intake", {"detected_scope": "large"}, "detected_scope"),
        ("intake", {"detected_scope": None}, "detected_scope"),
        ("intake", {"priority": None}, "priority"),
        ("intake", {"confidence": 2}, "confidence"),
        ("intake", {"initial_questions": BLOCKING}, "initial_questions"),
        ("intake", {"initial_questions": [{"priority": "optional"}]}, "question"),
        ("clarify", {"clarified_requirements": " "}, "clarified_requirements"),
        ("clarify", {"remaining_questions": BLOCKING}, "priority"),
        ("analyze", {"analysis": {}}, "summary"),
        ("analyze", {"affected_files": [{"reason": "?"}]}, "affected_files"),
        ("analyze", {"components": [{"type": "module"}]}, "name"),
        ("spec", {"components": []}, "components"),
        ("spec", {"components": [{"type": "module"}]}, "name"),
        ("spec", {"components": [{"name": "login"}]}, "type"),
    ],
)
def test_refused(rules: dict[str, ArtifactRule], stage: str, changes: dict[str, Any], where: str) -> None:
    (problem,) = mismatches(rules[stage], {**ARTIFACTS[stage], **changes})
    assert where in problem


def mismatches(rule: ArtifactRule, value: dict[str, Any]) -> list[str]:
    return [one.text for one in JsonSchema(rule.agent_schema).mismatches(value)]
