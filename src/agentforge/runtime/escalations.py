"""Keeps the view `escalations` up to date, and reads the resolution files that people put beside it."""

import logging
import os
from collections.abc import Iterable, Iterator

from agentforge.definition.report import Report, SourceText
from agentforge.definition.yaml_tree import Keyed, Listed, Tree, parse_mapping
from agentforge.model.errors import StorageFailed
from agentforge.model.event import Event
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan
from agentforge.model.request import Request
from agentforge.model.state import RunState
from agentforge.system import files
from agentforge.views.files.escalation import (
    Escalations,
    answer_of_resolution,
    cancels,
    escalation_id,
)

log = logging.getLogger("agentforge.run")

MAX_RESOLUTION_BYTES = 256 * 1024
BY_FILE = "resolution file"
"""Who answered, if the file doesn't name anyone."""


class EscalationWriter:
    """Writes the files of one run. A file that can't be written is reported, and doesn't stop the run."""

    def __init__(self, layout: RunLayout, plan: Plan, events: Iterable[Event]) -> None:
        self._folder = layout.escalations
        self._plan = plan
        self._view = Escalations()
        for event in events:
            self._view.apply(plan, event)

    def apply(self, event: Event) -> None:
        self._view.apply(self._plan, event)

    @property
    def is_due(self) -> bool:
        return bool(self._view.unwritten)

    def write(self) -> None:
        """Called when the events are durable."""
        for id, file in self._view.unwritten.items():
            path, content = os.path.join(self._folder, f"{id}.yaml"), file.content
            try:
                if files.make_dir(self._folder):
                    # The files are of this machine's runs: an agent's `git add` must not publish them.
                    files.place(os.path.join(self._folder, ".gitignore"), b"*\n")
                # An engine that resumes the run goes through all of them again; most are complete.
                if files.read_usable(path, len(content)) != content:
                    files.replace(path, content)
            except StorageFailed as error:
                log.warning("can't write the escalation %s: %s", path, error.message)
        self._view.unwritten.clear()


def resolutions(layout: RunLayout, state: RunState) -> Iterator[tuple[Request, str, str, str]]:
    """The open requests with a resolution file: its answer, the text that goes with it, and its author."""
    for request, given in _given(layout, state):
        if said := answer_of_resolution(request, given):
            yield request, *said, _author(given)


def cancellations(layout: RunLayout, state: RunState) -> Iterator[tuple[Request, str]]:
    """The open requests whose resolution file ends the run, with its author."""
    if state.stop is None or not state.stop.cancel:
        yield from (
            (request, _author(given)) for request, given in _given(layout, state) if cancels(request, given)
        )


def resolution_file(layout: RunLayout, run_id: str, request: Request) -> str:
    """Where a person answers the request."""
    id = escalation_id(run_id, request.id, request.opened_at)
    return os.path.join(layout.escalations, f"{id}.resolution.yaml")


def _given(layout: RunLayout, state: RunState) -> Iterator[tuple[Request, dict[str, object]]]:
    if os.path.lexists(layout.escalations):
        for request in state.open_requests:
            if given := _read(resolution_file(layout, state.run_id, request)):
                yield request, given


def _author(given: dict[str, object]) -> str:
    by = given.get("by")
    return by if isinstance(by, str) and by.strip() else BY_FILE


def _read(path: str) -> dict[str, object] | None:
    try:
        content = files.read_usable(path, MAX_RESOLUTION_BYTES)
        text = (content or b"").decode()
    except (StorageFailed, UnicodeDecodeError):
        return None
    if not text.endswith("\n"):
        return None  # It may be being written.
    tree = parse_mapping(SourceText(os.path.basename(path), text), Report())
    return None if tree is None else {entry.key.text: _plain(entry.value) for entry in tree.entries}


def _plain(tree: Tree) -> object:
    match tree:
        case Keyed(entries=entries):
            return {entry.key.text: _plain(entry.value) for entry in entries}
        case Listed(items=items):
            return [_plain(item) for item in items]
        case _:
            return tree.value
