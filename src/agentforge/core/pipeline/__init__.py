"""Pipelines of stages that are Python classes: what programs import. Names are loaded on first use."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentforge.core.pipeline.results import PipelineConfig as PipelineConfig
    from agentforge.core.pipeline.results import PipelineResult as PipelineResult
    from agentforge.core.pipeline.results import PipelineStatus as PipelineStatus
    from agentforge.core.pipeline.results import StageResult as StageResult
    from agentforge.core.pipeline.results import StageStatus as StageStatus
    from agentforge.core.pipeline.state import PipelineState as PipelineState
    from agentforge.core.pipeline.state_store import PipelineStateStore as PipelineStateStore

_HOME = {
    "results": ("PipelineConfig", "PipelineResult", "PipelineStatus", "StageResult", "StageStatus"),
    "state": ("PipelineState",),
    "state_store": ("PipelineStateStore",),
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _HOME.items() for name in names}

__all__ = [*_MODULES]  # noqa: PLE0604 - a list of strings


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
