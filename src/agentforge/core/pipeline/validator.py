"""Whether the artifact of a stage has what the next stage needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentforge import DefinitionError, stage_contract

_FIELDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("intake", "clarify"): ("request_id", "detected_scope", "initial_questions"),
    ("intake", "analyze"): ("request_id", "detected_scope"),
    ("clarify", "analyze"): ("request_id", "clarified_requirements"),
    ("analyze", "spec"): ("request_id", "analysis", "components"),
    ("spec", "red"): ("spec_id", "components", "test_cases"),
    ("red", "green"): ("spec_id", "test_files", "test_results"),
    ("green", "refactor"): ("spec_id", "implementation_files"),
    ("refactor", "deliver"): ("spec_id", "final_files"),
}
"""What programs may rely on, besides what the stages themselves need."""


class TransitionRequirements(Mapping[tuple[str, str], list[str]]):
    """Looked up when they are first needed, as the stages are files."""

    @cached_property
    def _rows(self) -> dict[tuple[str, str], list[str]]:
        return {key: [*dict.fromkeys([*fields, *_needs(key[1])])] for key, fields in _FIELDS.items()}

    def __getitem__(self, transition: tuple[str, str]) -> list[str]:
        return self._rows[transition]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _needs(stage: str) -> tuple[str, ...]:
    try:
        return stage_contract(stage).needs
    except DefinitionError as error:
        if any(one.code == "unknown-stage" for one in error.diagnostics):
            return ()  # It is a stage of another program.
        raise


@dataclass
class ValidationResult:
    valid: bool
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class ArtifactValidator:
    TRANSITION_REQUIREMENTS = TransitionRequirements()
    """The required fields of each transition."""

    def validate_transition(self, from_stage: str, to_stage: str, artifact: Any) -> ValidationResult:
        """Accepts any value as the artifact: what isn't one has errors."""
        if not isinstance(artifact, Mapping):
            return ValidationResult(False, [f"Artifact must be a mapping, not {_kind(artifact)}"])
        required = self.TRANSITION_REQUIREMENTS.get((str(from_stage), str(to_stage)), [])
        errors = [f"Missing required field: {name}" for name in required if name not in artifact]
        warnings = [
            f"Field {name} is None" for name in required if name in artifact and artifact[name] is None
        ]
        if from_stage == "spec":
            errors += _errors_of_spec(artifact)
        if from_stage == "red":
            errors += _errors_of_tests(artifact)
        return ValidationResult(not errors, errors, warnings)


def _errors_of_spec(artifact: Mapping[str, Any]) -> Iterator[str]:
    components = artifact.get("components")
    if not components:
        yield "Spec must have at least one component"
    elif not isinstance(components, list | tuple):
        yield f"Field components must be a list, not {_kind(components)}"
    else:
        for number, component in enumerate(components):
            if not isinstance(component, Mapping):
                yield f"Component {number} must be a mapping, not {_kind(component)}"
                continue
            yield from (
                f"Component {number} missing '{key}'" for key in ("name", "type") if not component.get(key)
            )


def _errors_of_tests(artifact: Mapping[str, Any]) -> Iterator[str]:
    """Before there is an implementation: at least one test fails, and none passes."""
    if not artifact.get("test_files"):
        yield "RED phase must produce at least one test file"
    results = artifact.get("test_results")
    if results is not None and not isinstance(results, Mapping):
        yield f"Field test_results must be a mapping, not {_kind(results)}"
        return
    passed, failed, errors, total = (
        _count(results or {}, name) for name in ("passed", "failed", "errors", "total")
    )
    if passed:
        yield "RED phase tests should fail initially"
    if failed + errors == 0:
        yield "RED phase must have at least one failing test" if passed or total else "No tests were executed"


def _count(results: Mapping[str, Any], name: str) -> int:
    """A number of tests; what is not one counts as none."""
    found = results.get(name)
    return found if isinstance(found, int) and found > 0 else 0


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
