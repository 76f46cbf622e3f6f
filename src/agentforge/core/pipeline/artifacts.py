"""What the artifacts of the eight stages contain. A stage may leave more."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class IntakeArtifact:
    request_id: str
    original_request: str
    detected_scope: str
    """bug_fix, feature_addition, refactoring, unclear."""
    priority: str
    """low, medium, high, critical."""
    initial_questions: list[dict[str, Any]] = field(default_factory=list)
    detected_components: list[str] = field(default_factory=list)


@dataclass
class ClarifyArtifact:
    request_id: str
    clarified_requirements: str
    answered_questions: list[dict[str, Any]] = field(default_factory=list)
    remaining_questions: list[dict[str, Any]] = field(default_factory=list)
    scope_confirmed: bool = False


@dataclass
class AnalyzeArtifact:
    request_id: str
    analysis: dict[str, Any] = field(default_factory=dict)
    affected_files: list[str] = field(default_factory=list)
    components: list[dict[str, Any]] = field(default_factory=list)
    dependencies: list[str] = field(default_factory=list)
    risks: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class SpecArtifact:
    spec_id: str
    request_id: str
    components: list[dict[str, Any]] = field(default_factory=list)
    test_cases: list[dict[str, Any]] = field(default_factory=list)
    interfaces: list[dict[str, Any]] = field(default_factory=list)
    acceptance_criteria: list[str] = field(default_factory=list)


@dataclass
class RedArtifact:
    """Of the tests that are written first."""

    spec_id: str
    test_files: list[str] = field(default_factory=list)
    test_results: dict[str, Any] = field(default_factory=dict)
    failing_tests: list[str] = field(default_factory=list)


@dataclass
class GreenArtifact:
    """Of the implementation."""

    spec_id: str
    implementation_files: list[str] = field(default_factory=list)
    test_results: dict[str, Any] = field(default_factory=dict)
    passing_tests: list[str] = field(default_factory=list)


@dataclass
class RefactorArtifact:
    spec_id: str
    refactored_files: list[str] = field(default_factory=list)
    improvements: list[dict[str, Any]] = field(default_factory=list)
    final_files: list[str] = field(default_factory=list)


@dataclass
class DeliverArtifact:
    spec_id: str
    deliverable_type: str
    """commit, pr, files."""
    commit_sha: str | None = None
    pr_url: str | None = None
    files_modified: list[str] = field(default_factory=list)
    summary: str = ""
