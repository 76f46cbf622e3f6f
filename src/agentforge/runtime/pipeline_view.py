"""Keeps the view `controller` up to date: the state of a pipeline, its artifacts and its specifications."""

import logging
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

from agentforge.model import facts as f
from agentforge.model.errors import AgentForgeError
from agentforge.model.event import Event
from agentforge.model.layout import ARTIFACTS, PIPELINES, SPECIFICATIONS, RunLayout
from agentforge.model.names import is_pipeline_id
from agentforge.model.plan_limits import is_plain_name
from agentforge.runtime.artifacts import read_artifact
from agentforge.runtime.pipeline_files import PipelineFiles
from agentforge.system import files
from agentforge.system.yaml_files import plain_data, yaml_bytes
from agentforge.views.files.pipeline import PipelineView
from agentforge.views.record import RunRecord

log = logging.getLogger("agentforge.run")

_SHOWN = (
    f.NodeStarted,
    f.NodeRestarted,
    f.NodeCompleted,
    f.IterationCompleted,
    f.RequestOpened,
    f.RequestAnswered,
    f.RequestResolved,
    f.PlanChanged,
)
"""The facts after which the files say something else; besides those that change the status of the run."""


class PipelineWriter:
    """Writes the files of one run. They are derived from the log; nothing of them is read back."""

    def __init__(self, layout: RunLayout, record: RunRecord) -> None:
        self._layout = layout
        self._record = record
        self._written: dict[str, bytes] = {}
        """The artifacts that are on the disk, by path."""
        # An engine that continues the run makes up for what a killed one didn't write.
        self.is_due = True

    def apply(self, event: Event) -> None:
        self.is_due = self.is_due or isinstance(event.fact, _SHOWN) or event.fact.run_status is not None

    def write(self) -> None:
        self.is_due = False
        try:
            for path, content, is_hidden in self._artifacts():
                self._put(path, content, hidden=is_hidden)
            if is_pipeline_id(self._layout.session):
                self._states.write(self._layout.session, self.document(), over=self._view.is_over)
        except AgentForgeError as error:
            log.warning("can't write the files of the view `controller`: %s", error)

    def document(self) -> dict[str, Any]:
        """What the state file says."""
        return self._view.document()

    def is_outdated(self) -> bool:
        """Whether a file is missing or says something else: a killed engine didn't write it, or it was
        changed."""
        session = self._layout.session
        if is_pipeline_id(session) and self._states.read(session) != plain_data(self.document()):
            return True
        return any(files.read_usable(path, len(text)) != text for path, text, _ in self._artifacts())

    @property
    def _view(self) -> PipelineView:
        return PipelineView(self._record, partial(read_artifact, self._layout))

    @property
    def _states(self) -> PipelineFiles:
        return PipelineFiles(os.path.join(self._layout.project, PIPELINES))

    def _artifacts(self) -> Iterator[tuple[str, bytes, bool]]:
        """Path, content, and whether git is to ignore it: artifacts are of this machine's runs, but people
        commit specifications."""
        project = self._layout.project
        folder = os.path.join(project, ARTIFACTS, self._layout.session)
        for one in self._view.artifacts():
            content = yaml_bytes(one.content)
            yield os.path.join(folder, one.file), content, True
            if one.spec_id and is_plain_name(one.spec_id):
                yield os.path.join(project, SPECIFICATIONS, f"{one.spec_id}.yaml"), content, False

    def _put(self, path: str, content: bytes, *, hidden: bool) -> None:
        if self._written.get(path) == content:
            return
        parent = os.path.dirname(path)
        if files.make_dir(parent) and hidden:
            files.place(os.path.join(parent, ".gitignore"), b"*\n")
        if files.read_usable(path, len(content)) != content:
            files.replace(path, content)
        self._written[path] = content


def repair_pipeline_files(layout: RunLayout, record: RunRecord) -> None:
    """Write what is missing or outdated, for a caller that holds the lease of the run."""
    writer = PipelineWriter(layout, record)
    if writer.is_outdated():
        writer.write()
