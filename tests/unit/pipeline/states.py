"""States of pipelines, as tests need them, and plain data of all kinds."""

from typing import Any

from hypothesis import strategies as st

from agentforge.core.pipeline import PipelineConfig, PipelineState, PipelineStatus

ID = "PL-20260102153000-0a1b2c3d"
NAMES = st.text(min_size=1, max_size=12)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
MAPPINGS = st.dictionaries(NAMES, PLAIN, max_size=4)


def state(id: str = ID, **changes: Any) -> PipelineState:
    given: dict[str, Any] = {
        "pipeline_type": "design",
        "config": PipelineConfig("design", ["intake", "spec"]),
        "user_request": "Add OAuth2 authentication",
        "context": {},
        "status": PipelineStatus.RUNNING,
        "current_stage_index": 0,
        **changes,
    }
    return PipelineState(pipeline_id=id, **given)
