"""The states of pipelines as files: `active/ID.yaml`, `completed/ID.yaml` and `index.yaml` in one folder."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from typing import Any

import msgspec

from agentforge.model.errors import NOT_JSON, InvalidRequest
from agentforge.system import files
from agentforge.system.yaml_files import json_bytes, parse_yaml, plain_data, settled_path, yaml_bytes

# Several programs write here at once, each under the lock of the folder, and readers take no lock. So each
# file is replaced as a whole, a state is complete in its new place before it leaves the old one, and a file
# of an artifact is there before a state refers to it.
#
# The index is made from the states. It is as new as the folders: a state that was written without it, by a
# program that was killed in between or by a person, makes its folder newer, and the index is rebuilt.

log = logging.getLogger("agentforge.core.pipeline")

ACTIVE, COMPLETED = "active", "completed"
MAX_INLINE_BYTES = 64 * 1024
"""What the artifacts in a state's own file have together; larger ones get a file of their own."""
LISTED = ("status", "pipeline_type", "created_at", "updated_at", "current_stage")
"""What the index tells of a pipeline."""
FINAL = ("completed", "failed", "aborted")
_ID = re.compile(r"PL-[0-9A-Za-z-]+")
_SUFFIX = ".yaml"
_REFERENCE = "_file"
_ARTIFACT = re.compile(r"[\w.-]+-([0-9a-f]{8})\.json", re.ASCII)
_UNUSUAL = re.compile(r"[^\w.-]", re.ASCII)
LOCK_SECONDS = 30.0
"""Many programs may wait for each other."""
_HEADING = b"# The pipelines by id, made from the files in active/ and completed/.\n"

Document = dict[str, Any]
IndexEntry = dict[str, Any]


class PipelineFiles:
    def __init__(
        self,
        base: str | os.PathLike[str],
        *,
        durable: bool = False,
        check: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        """`durable`: wait until a state is on the disk, for one that is recorded nowhere else. `check`:
        raises InvalidRequest for a document that can't be read."""
        self._base = settled_path(base)
        self._durable = durable
        self._check = check or (lambda _: None)
        self._index = os.path.join(self._base, "index.yaml")

    # -- one pipeline

    def write(self, id: str, document: Mapping[str, Any], *, over: bool) -> None:
        """`over`: whether the pipeline has ended, so that its state belongs in `completed`."""
        place, other = (COMPLETED, ACTIVE) if over else (ACTIVE, COMPLETED)
        path, old = self._path(place, id), self._path(other, id)
        with self._locked():
            entries = self._entries()
            inline, kept = self._move_out_artifacts(id, document)
            plain: Document = plain_data(inline)
            files.replace(path, yaml_bytes(plain), durable=self._durable)
            files.remove(old)
            self._remove_artifacts(id, kept)
            self._write_index({**entries, id: _entry(plain)})

    def read(self, id: str) -> Document | None:
        """The newer one if there are two; None if it is missing or unreadable: such a file is renamed."""
        # Between the two looks it may be moved to the place that was looked at first.
        found = self._copies(id) or self._copies(id)
        return max(found, key=_updated) if found else None

    def delete(self, id: str) -> bool:
        """Whether it existed."""
        paths = [self._path(place, id) for place in (ACTIVE, COMPLETED)]
        with self._locked():
            entries = self._entries()
            existing = [path for path in paths if os.path.lexists(path)]
            for path in existing:
                files.remove(path)
            self._remove_artifacts(id, set())
            entries.pop(id, None)
            self._write_index(entries)
        return bool(existing)

    def _copies(self, id: str) -> list[Document]:
        states = (self._state(self._path(place, id)) for place in (ACTIVE, COMPLETED))
        return [state for state in states if state is not None]

    def _path(self, place: str, id: str) -> str:
        if not _ID.fullmatch(id):
            what = f"invalid id of a pipeline: {id!r}"
            raise InvalidRequest(what, hint="it is `PL-` with letters, digits and dashes")
        return os.path.join(self._base, place, f"{id}{_SUFFIX}")

    # -- all pipelines

    def entries(self) -> dict[str, IndexEntry]:
        """What the index tells of each pipeline, by its id."""
        if not files.is_dir(self._base):
            return {}
        if (found := self._read_index()) is not None:
            return found
        with self._locked():
            found = self._entries()
            self._write_index(found)
        return found

    def active(self) -> int:
        """The number of those that haven't ended."""
        return sum(entry.get("status") not in FINAL for entry in self.entries().values())

    def _entries(self) -> dict[str, IndexEntry]:
        found = self._read_index()
        return self._listed() if found is None else found

    def _read_index(self) -> dict[str, IndexEntry] | None:
        """None if it is missing, unreadable or out of date."""
        content, about = files.read_usable(self._index), files.about(self._index)
        if about is None or not content or not content.startswith(_HEADING) or content[-1:] != b"\n":
            return None
        folders = (os.path.join(self._base, place) for place in (ACTIVE, COMPLETED))
        if any(_changed(folder) > about.st_mtime_ns for folder in folders):
            return None
        found = {}
        for line in content.removeprefix(_HEADING).split(b"\n")[:-1]:
            id, _, entry = line.partition(b": ")
            try:
                found[id.decode()] = msgspec.json.decode(entry, type=IndexEntry)
            except NOT_JSON:
                return None
        return found if all(map(_ID.fullmatch, found)) else None

    def _listed(self) -> dict[str, IndexEntry]:
        """Made from the states, under the lock."""
        newest: dict[str, Document] = {}
        for place in (ACTIVE, COMPLETED):
            for name in files.listing(os.path.join(self._base, place)):
                id = name.removesuffix(_SUFFIX)
                if id == name or not _ID.fullmatch(id):
                    continue
                state = self._state(self._path(place, id), is_locked=True)
                if state is not None:
                    newest[id] = max(state, newest.get(id, state), key=_updated)
        return {id: _entry(state) for id, state in newest.items()}

    def _write_index(self, entries: Mapping[str, IndexEntry]) -> None:
        # An entry is a line, and JSON, which is YAML, too: reading thousands takes milliseconds.
        lines = (b"%s: %s\n" % (id.encode(), msgspec.json.encode(entry)) for id, entry in entries.items())
        files.replace(self._index, _HEADING + b"".join(lines))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        for folder in (self._base, *(os.path.join(self._base, place) for place in (ACTIVE, COMPLETED))):
            if files.make_dir(folder, 0o777) and folder == self._base:
                # The states are of this machine: an agent's `git add` must not publish them.
                files.place(os.path.join(folder, ".gitignore"), b"*\n")
        with files.locked(os.path.join(self._base, ".lock"), LOCK_SECONDS):
            yield

    # -- the file of a state

    def _state(self, path: str, *, is_locked: bool = False) -> Document | None:
        content = files.read_usable(path)
        if content is None and not os.path.lexists(path):
            return None
        state = self._parsed(path, content)
        if state is not None:
            return state
        with nullcontext() if is_locked else self._locked():
            is_new = not os.path.lexists(path) or files.read_usable(path) != content
            if not is_new:
                unreadable = files.free_name(f"{path}.unreadable")
                files.move(path, unreadable)
                log.warning("the state %s can't be read: renamed to %s", path, unreadable)
        return self._state(path, is_locked=is_locked) if is_new else None

    def _parsed(self, path: str, content: bytes | None) -> Document | None:
        """The state, with its artifacts, or None if it isn't one."""
        try:
            state = parse_yaml(content or b"")
            if not isinstance(state, dict):
                return None
            self._check(state)
        except (ValueError, InvalidRequest):
            return None
        folder = self._artifacts(os.path.basename(path).removesuffix(_SUFFIX))
        for holder, key in _places_of_artifacts(state):
            if _is_reference(holder[key]):
                holder[key] = _read_artifact(folder, str(holder[key][_REFERENCE]))
                if holder[key] is None:
                    return None
        return state

    # -- artifacts

    def _artifacts(self, id: str) -> str:
        return os.path.join(self._base, f"{id}.artifacts")

    def _move_out_artifacts(self, id: str, document: Mapping[str, Any]) -> tuple[Document, set[str]]:
        """The document with references to the files of larger artifacts, and the names of these."""
        state = dict(document)
        if isinstance(stages := state.get("stage_artifacts"), dict):
            state["stage_artifacts"] = {**stages}
        encoded = [(json_bytes(holder[key]), holder, key) for holder, key in _places_of_artifacts(state)]
        left, kept = MAX_INLINE_BYTES, set()
        for content, holder, key in sorted(encoded, key=lambda one: len(one[0])):
            left -= len(content)
            if left >= 0 and not _is_reference(holder[key]):
                continue
            stage = "pending" if holder is state else str(key)
            name = f"{_UNUSUAL.sub('_', stage)[:40]}-{sha256(content).hexdigest()[:8]}.json"
            path = os.path.join(self._artifacts(id), name)
            if files.read_usable(path, len(content)) != content:
                files.make_dir(self._artifacts(id), 0o777)
                files.replace(path, content, durable=self._durable)
            holder[key] = {_REFERENCE: name}
            kept.add(name)
        return state, kept

    def _remove_artifacts(self, id: str, kept: set[str]) -> None:
        folder = self._artifacts(id)
        if os.path.lexists(folder):
            for name in set(files.listing(folder)) - kept:
                files.remove(os.path.join(folder, name))
            files.remove_empty_dir(folder)


def _places_of_artifacts(state: Document) -> list[tuple[Document, str]]:
    stages = state.get("stage_artifacts")
    places = [(stages, name) for name in stages] if isinstance(stages, dict) else []
    return [*places, (state, "pending_artifact")] if state.get("pending_artifact") else places


def _entry(state: Document) -> IndexEntry:
    return {key: state.get(key) for key in LISTED}


def _is_reference(artifact: Any) -> bool:
    return isinstance(artifact, dict) and artifact.keys() == {_REFERENCE}


def _read_artifact(folder: str, name: str) -> Any:
    found = _ARTIFACT.fullmatch(name)
    content = files.read_usable(os.path.join(folder, name)) if found else None
    if found is None or content is None or sha256(content).hexdigest()[:8] != found[1]:
        return None
    try:
        return msgspec.json.decode(content)
    except NOT_JSON:
        return None


def _updated(state: Document) -> str:
    """Of two states, the later one has the greater text."""
    return str(state.get("updated_at") or "")


def _changed(folder: str) -> int:
    try:
        return os.lstat(folder).st_mtime_ns
    except OSError:
        return 0
