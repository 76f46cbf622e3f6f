"""Stores the states of pipelines that no run has; those of runs are written from their logs."""

import logging
import os
from datetime import UTC, datetime
from pathlib import Path

from agentforge import InvalidRequest, PipelineFiles, RunLayout
from agentforge.core.pipeline.results import PipelineStatus
from agentforge.core.pipeline.state import PipelineState

logger = logging.getLogger("agentforge.core.pipeline")


class PipelineStateStore:
    """`active/ID.yaml` while a pipeline hasn't ended, then `completed/ID.yaml`, and `index.yaml`."""

    def __init__(self, base_path: str | os.PathLike[str]) -> None:
        """`base_path`: the folder, for a project its `.agentforge/pipeline`."""
        self.base_path = Path(base_path)
        self.active_path = self.base_path / "active"
        self.completed_path = self.base_path / "completed"
        self.index_path = self.base_path / "index.yaml"
        self._files = PipelineFiles(base_path, durable=True, check=PipelineState.from_document)

    def save(self, state: PipelineState) -> None:
        """Raises InvalidRequest for a pipeline that has a run: its log is its state."""
        self._refuse_run(state.pipeline_id)
        state.updated_at = datetime.now(UTC)
        self._files.write(state.pipeline_id, state.document(), over=state.status.is_final)
        logger.debug("Saved pipeline state: %s", state.pipeline_id)

    def load(self, pipeline_id: str) -> PipelineState | None:
        document = self._files.read(pipeline_id)
        return None if document is None else PipelineState.from_document(document)

    def delete(self, pipeline_id: str) -> bool:
        """Whether it existed. Raises InvalidRequest for a pipeline that has a run."""
        self._refuse_run(pipeline_id)
        return self._files.delete(pipeline_id)

    def list(self, status: PipelineStatus | None = None, limit: int = 20) -> list[PipelineState]:
        """The latest ones first."""
        entries = sorted(
            self._files.entries().items(),
            key=lambda one: (str(one[1].get("created_at")), one[0]),
            reverse=True,
        )
        found: list[PipelineState] = []
        for id, entry in entries:
            if len(found) >= limit:
                break
            state = self.load(id) if status is None or entry.get("status") == status.value else None
            if state is not None and status in (None, state.status):
                found.append(state)
        return found

    def get_active_count(self) -> int:
        """How many have not ended."""
        return self._files.active()

    def _refuse_run(self, pipeline_id: str) -> None:
        folder = os.path.abspath(self.base_path)
        project = folder.removesuffix("/.agentforge/pipeline")
        if project != folder and os.path.lexists(RunLayout.of(project, pipeline_id).log):
            raise InvalidRequest(
                f"the state of pipeline {pipeline_id} is made from the log of its run, which doesn't change",
                hint="use PipelineController to continue or to abort it",
            )
