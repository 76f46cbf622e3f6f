"""What a stage needs of the artifact of the stage before it, by the names of both."""

from collections.abc import Mapping

Transition = tuple[str, str]


def transition_requirements() -> Mapping[Transition, list[str]]:
    """The fields that an artifact must have to go from one stage to the next."""
    return {
        ("intake", "clarify"): ["request_id", "detected_scope", "initial_questions"],
        ("intake", "analyze"): ["request_id", "detected_scope"],
        ("clarify", "analyze"): ["request_id", "clarified_requirements"],
        ("analyze", "spec"): ["request_id", "analysis", "components"],
        ("spec", "red"): ["spec_id", "components", "test_cases"],
        ("red", "green"): ["spec_id", "test_files", "test_results"],
        ("green", "refactor"): ["spec_id", "implementation_files"],
        ("refactor", "deliver"): ["spec_id", "final_files"],
    }
