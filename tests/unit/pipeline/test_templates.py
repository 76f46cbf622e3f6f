"""The configuration of pipeline types that projects define as templates."""

from pathlib import Path

import pytest

from agentforge import DefinitionError
from agentforge.core.pipeline import PipelineConfig, PipelineTemplateLoader, config

TEMPLATE = """\
stages: [intake, clarify, analyze]
defaults:
  supervised: {supervised}
  iteration_enabled: false
  max_iterations_per_stage: 5
  timeout_seconds: 60
  exit_after: clarify
"""


def loader(project: Path, text: str, folder: str = "") -> PipelineTemplateLoader:
    path = project / ".agentforge/pipelines" / folder / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return PipelineTemplateLoader(project)


@pytest.mark.parametrize("is_supervised", [True, False])
def test_template_says_how_its_pipeline_runs(tmp_path: Path, is_supervised: bool) -> None:
    expected = PipelineConfig(
        "mine",
        ["intake", "clarify", "analyze"],
        exit_after="clarify",
        supervised=is_supervised,
        iteration_enabled=False,
        max_iterations_per_stage=5,
        timeout_seconds=60,
    )
    text = TEMPLATE.replace("{supervised}", str(is_supervised).lower())
    assert loader(tmp_path, text).load("mine") == expected


def test_template_without_defaults_has_those_of_the_configuration(tmp_path: Path) -> None:
    found = loader(tmp_path, "stages: [intake]\n", "custom")
    assert found.load("mine") == PipelineConfig("mine", ["intake"])
    assert {"mine", "design"} <= set(found.list_available_pipelines())


def test_template_replaces_a_built_in_type(tmp_path: Path) -> None:
    text = "stages: [intake]\n"
    (tmp_path / ".agentforge/pipelines").mkdir(parents=True)
    (tmp_path / ".agentforge/pipelines/design.yaml").write_text(text, encoding="utf-8")
    assert PipelineTemplateLoader(tmp_path).load("design").stages == ["intake"]


def test_mistakes_are_those_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"\.agentforge/pipelines/mine\.yaml:1:10: unknown-stage"):
        loader(tmp_path, "stages: [nonsense]\n").load("mine")


def test_it_has_two_import_paths() -> None:
    assert config.PipelineTemplateLoader is PipelineTemplateLoader
    assert config.PipelineConfig is PipelineConfig
