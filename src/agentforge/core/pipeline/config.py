"""The configuration of pipelines, under the name by which programs also import it."""

from agentforge.core.pipeline.results import PipelineConfig
from agentforge.core.pipeline.templates import PipelineTemplateLoader

__all__ = ["PipelineConfig", "PipelineTemplateLoader"]
