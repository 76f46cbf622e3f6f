"""The names of the package, and the table of tests for what the specifications' own code gets wrong."""

import ast
import importlib
import re
from dataclasses import fields
from pathlib import Path

import pytest
from tests.unit.pipeline.defects import DEFECTS

import agentforge.core.orchestration
import agentforge.core.pipeline
from agentforge.core.pipeline import PipelineResult, PipelineStatus, artifacts

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", agentforge.core.pipeline.__all__)
def test_every_name_is_imported_from_the_package(name: str) -> None:
    assert getattr(agentforge.core.pipeline, name).__module__.startswith("agentforge.core.pipeline.")


def test_there_are_no_other_names() -> None:
    with pytest.raises(AttributeError, match="StageRouter"):
        agentforge.core.pipeline.StageRouter  # noqa: B018


def test_a_module_of_the_package_can_be_imported_first() -> None:
    for name in ("controller", "state", "stage_executor", "templates", "validator"):
        assert importlib.import_module(f"agentforge.core.pipeline.{name}")


def test_a_result_keeps_its_own_list() -> None:
    stages = ["intake"]
    result = PipelineResult(True, "PL-1", PipelineStatus.COMPLETED, stages_completed=stages)
    stages.append("spec")
    assert result.stages_completed == ["intake"]


NAMES = [name for name in vars(artifacts) if name.endswith("Artifact")]


@pytest.mark.parametrize("name", NAMES)
def test_the_artifacts_name_the_fields_that_the_next_stage_reads(name: str) -> None:
    """A stage gets those of all stages before it, merged."""
    stage, earlier = name.removesuffix("Artifact").lower(), NAMES[: NAMES.index(name) + 1]
    has = {one.name for known in earlier for one in fields(getattr(artifacts, known))}
    requirements = agentforge.core.pipeline.ArtifactValidator.TRANSITION_REQUIREMENTS
    for (from_stage, to_stage), needed in requirements.items():
        if from_stage == stage and (from_stage, to_stage) != ("intake", "analyze"):
            assert set(needed) <= has


def test_every_name_is_in_the_module_that_is_type_checked() -> None:
    source = (ROOT / "tests/unit/pipeline/typed_names.py").read_text(encoding="utf-8")
    used = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    assert {*agentforge.core.pipeline.__all__, *agentforge.core.orchestration.__all__} <= used


def test_the_table_is_complete() -> None:
    assert sorted(DEFECTS) == list(range(1, 69))


def test_every_test_of_the_table_exists() -> None:
    missing = []
    for number, place in DEFECTS.items():
        file, _, test = place.partition("::")
        name = re.escape(test.rpartition("::")[2])
        path = ROOT / file
        if not path.exists() or not re.search(rf"def {name}\(", path.read_text(encoding="utf-8")):
            missing.append((number, place))
    assert missing == []
