"""The artifacts of a run: which are accepted from attempts, and what later stages get of them.

An accepted artifact never changes. One that fits is part of its event, and its file is a copy that the engine
doesn't read again. Of a larger one the event has size and hash: an agent can write to the file later, so each
read compares both.
"""

import os
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from agentforge.engine.checks.criteria import criteria_in
from agentforge.engine.items import MAX_PROBLEMS, Element, elements_of
from agentforge.model.artifact import (
    INLINE_BYTES,
    MAX_ARTIFACT_BYTES,
    MAX_ARTIFACT_DEPTH,
    MAX_INPUT_BYTES,
    REMOVED,
    Artifact,
)
from agentforge.model.errors import NOT_JSON, UnusableFile
from agentforge.model.facts import ErrorOccurred
from agentforge.model.failure import Failure, FailureKind, short_message
from agentforge.model.layout import RunLayout
from agentforge.model.plan import ArtifactSource, Items, Plan, StageNode
from agentforge.model.result import JSONObject
from agentforge.model.task import AgentTask, PrepareTask
from agentforge.runtime.attempt_folder import archive_folder, sync_names
from agentforge.system import files
from agentforge.system.schemas import InvalidSchema, JsonSchema, depth_of
from agentforge.views.artifacts import IterationInput, RunKeys, artifact_input
from agentforge.views.history import History

# Agents work in the project, and the run's folder is below it. A stage that silently got another plan
# than the one that was accepted and approved would make every gate before it worthless. So a changed
# artifact isn't used, and the stage fails with both hashes: a person restores the file, or starts over.

SHOWN_KEYS = 5
REPAIR_TITLE = "Repair what was sent back"
BOM = b"\xef\xbb\xbf"


class ArtifactRules:
    """What the artifacts of a run must be like. Schemas are compiled once."""

    def __init__(self, plan: Plan, layout: RunLayout, keys: RunKeys) -> None:
        self._plan = plan
        self._layout = layout
        self.keys = keys
        self._schemas: dict[tuple[str, str | None], JsonSchema] = {}

    def _problems(self, task: AgentTask, value: JSONObject) -> list[str]:
        """What is wrong with an artifact; empty: it is accepted."""
        assert task.node.artifact is not None
        found = foreign_keys(self.keys, value)
        at = (task.place.path, task.place.branch)
        if at not in self._schemas:
            try:
                self._schemas[at] = JsonSchema(task.node.artifact.agent_schema)
            except InvalidSchema as error:  # The compiler accepted it, with another version of the library.
                return [f"the schema can't be used: {error}"]
        own = {name: one for name, one in value.items() if name not in self.keys.values}
        found += [mismatch.text for mismatch in self._schemas[at].mismatches(own)]
        return found or item_problems(self._plan, value, ArtifactSource(*at))

    def accept(
        self, task: AgentTask, returned: JSONObject | None, *, light: bool
    ) -> tuple[Artifact, JSONObject] | Failure:
        """The artifact of an attempt in its final form, with its value; or why there is none.
        Safe to repeat: a rejected file is moved to the attempt's folder, and found there. `light`: the
        iteration has no files."""
        here = self._layout.iteration(task.place.folder, task.iteration)
        rejected = here.attempt(task.attempt).artifact
        try:
            found = _left((here.artifact, rejected) if not light else (), returned)
        except UnusableFile as error:
            problem = error.message.removeprefix(here.artifact).removeprefix(rejected)
            problem = f"artifact.json{problem}; the agent must write a regular file of at most 16 MB"
            return self._rejected(task, problem)
        if found is None:
            asked = self._layout.relative(here.artifact)
            return _invalid(f"the agent left no artifact: it must write a JSON object to {asked}")
        content, place = found
        value = decoded(content)
        problems = [value] if isinstance(value, str) else self._problems(task, value)
        if not problems and not isinstance(value, str):
            return self._kept(task, content, value, is_file=place == here.artifact, light=light), value
        if light:
            return _invalid("; ".join(problems))
        return self._rejected(task, "; ".join(problems), None if place else content)

    def _rejected(self, task: AgentTask, problem: str, returned: bytes | None = None) -> Failure:
        """Keep what can't be accepted, where it is out of the way of a further attempt."""
        here = self._layout.iteration(task.place.folder, task.iteration)
        rejected = here.attempt(task.attempt).artifact
        archive_folder(here.attempt(task.attempt))
        if os.path.lexists(here.artifact):
            files.move(here.artifact, rejected)
        elif returned is not None:
            files.replace(rejected, returned)
        return _invalid(f"{problem}; it is kept in {self._layout.relative(rejected)}")

    def _kept(
        self, task: AgentTask, content: bytes, value: JSONObject, *, is_file: bool, light: bool
    ) -> Artifact:
        here = self._layout.iteration(task.place.folder, task.iteration)
        is_large = len(content) > INLINE_BYTES
        # Of a large one, also a copy of the agent's file: it may still have the file open.
        if is_large or not (is_file or light):
            files.make_dir(here.root)
            files.replace(here.artifact, content, durable=is_large)
        if is_large:
            sync_names(here.attempt(task.attempt), self._layout.root)
        assert task.node.artifact is not None
        version, item = task.node.artifact.version, task.item.id if task.item else ""
        return recorded(self._layout.relative(here.artifact), content, value, version, item)


def recorded(file: str, content: bytes, value: JSONObject, version: str, item: str = "") -> Artifact:
    """An artifact as the log has it."""
    digest, is_large = sha256(content).hexdigest(), len(content) > INLINE_BYTES
    return Artifact(file, len(content), digest, version, None if is_large else value, item)


def foreign_keys(keys: RunKeys, value: JSONObject) -> list[str]:
    """What is wrong with the keys of the engine in an artifact."""
    return [f"$.{key}: the engine sets this key; leave it out" for key in keys.foreign(value)[:SHOWN_KEYS]]


def item_problems(plan: Plan, value: JSONObject, source: ArtifactSource) -> list[str]:
    """What prevents the stages that take items from an artifact from doing so."""
    for stage in plan.placed.values():
        termination = stage.termination
        if stage.sources and stage.sources.items == source and isinstance(termination, Items):
            elements = elements_of(value, termination.field, termination.max)
            problems = [
                problem
                for one in elements
                for problem in ([one] if isinstance(one, str) else _criteria_problems(stage, one))
            ]
            if problems:
                shown = problems[: MAX_PROBLEMS + 1]
                return [f"{problem} (the items of stage {stage.id!r})" for problem in shown]
    return []


def _criteria_problems(stage: StageNode, item: Element) -> Iterator[str]:
    """Only who writes the list can correct what no work on an item can fulfil."""
    if stage.criteria is not None:
        for problem in criteria_in(stage, item.value).problems:
            yield f"item {item.id!r}: {problem}"


def _left(places: Iterable[str], returned: JSONObject | None) -> tuple[bytes, str] | None:
    """What an attempt left, and in which file; empty: the provider returned it."""
    for place in places:
        content = files.read_bytes(place, MAX_ARTIFACT_BYTES)
        if content is not None:
            return content, place
    return None if returned is None else (files.compact(returned), "")


def _invalid(problem: str) -> Failure:
    return Failure(FailureKind.ARTIFACT_INVALID, f"the artifact is not accepted: {problem}")


def decoded(content: bytes) -> JSONObject | str:
    """The object, or why it is none that can be accepted."""
    if not content.strip():
        return "$: the file is empty"
    if content == REMOVED:
        return f"$: {REMOVED.decode().strip()}"
    if len(content) > MAX_ARTIFACT_BYTES:
        return f"$: it has {len(content):,} bytes; the maximum is {MAX_ARTIFACT_BYTES >> 20} MB"
    try:
        value = msgspec.json.decode(content.removeprefix(BOM))
    except NOT_JSON as error:
        return f"$: it is not JSON: {error}"
    if not isinstance(value, dict):
        return "$: it must be a JSON object"
    too_deep = depth_of(value) > MAX_ARTIFACT_DEPTH
    return f"$: it is nested deeper than {MAX_ARTIFACT_DEPTH} levels" if too_deep else value


def plain(value: object) -> JSONObject | str:
    """The value as a program would write it, such as with times as text, or why it can't be accepted."""
    try:
        content = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        return f"$: it is not JSON: {error}"
    return decoded(content)


def read_artifact(layout: RunLayout, artifact: Artifact) -> JSONObject:
    """Its value. Raises UnusableFile."""
    if artifact.value is not None:
        return artifact.value
    path = layout.absolute(artifact.file)  # Inside of the run: the reader of the log refuses any other.
    try:
        content = files.read_bytes(path, MAX_ARTIFACT_BYTES)
    except UnusableFile as error:  # Something else is in its place.
        content, found = None, error.message.removeprefix(f"{os.path.dirname(path)}/")
    else:
        digest = sha256(content or b"").hexdigest()
        found = "it is missing" if content is None else f"it has {digest} now"
        content = content if digest == artifact.sha256 else None
    if content is None:
        raise UnusableFile(
            f"artifact {path} was changed: SHA-256 {artifact.sha256} was accepted, {found}",
            hint="restore the file and resume the run, or start over with --force",
        )
    try:
        return msgspec.json.decode(content.removeprefix(BOM), type=dict[str, Any])
    except NOT_JSON as error:  # The log of a run that came with a repository can name any file.
        raise UnusableFile(f"artifact {path} is not a JSON object: {error}") from None


class StoredArtifacts:
    """What the stages of a run get of the artifacts that were accepted. Its methods raise UnusableFile for
    one that is missing or was changed."""

    def __init__(self, plan: Plan, layout: RunLayout, history: History, keys: RunKeys) -> None:
        self._plan = plan
        self._history = history
        self.keys = keys
        self.value = partial(read_artifact, layout)
        self._elements: dict[str, tuple[str, dict[str, Element]]] = {}
        """By the source of the items, with the hash of the artifact that they are from."""

    def input(self, task: PrepareTask | AgentTask) -> IterationInput:
        left = MAX_INPUT_BYTES

        def read(artifact: Artifact) -> JSONObject:
            nonlocal left
            left -= artifact.size
            if left < 0:
                most = f"{MAX_INPUT_BYTES >> 20} MB"
                raise UnusableFile(
                    f"the artifacts before stage {task.node.id!r} have more than {most} together",
                    hint="write large data to files of the project, and their paths to artifacts",
                )
            return self.value(artifact)

        given = artifact_input(self._plan, task, self._history, self.keys, read)
        item = task.item
        if item is None:
            return given
        if item.repair is not None:
            element = {"id": item.id, "title": REPAIR_TITLE, "description": item.repair.text}
            return replace(given, element=element)
        _, elements = self.items(task.node)
        if item.id not in elements:
            raise UnusableFile(f"the list has no item {item.id!r} any more: resume with --restart-stage")
        needed = {id: elements[id].value for id in elements[item.id].after}
        return replace(given, element=elements[item.id].value, needed=needed)

    def of_stage(self, path: str, branch: str | None) -> list[JSONObject]:
        """The latest of a stage, or of each of its items."""
        known = self._history.artifacts_of(path, branch)
        latest = known.by_item.values() if known.over_items else filter(None, (known.latest,))
        return [self.value(one) for one in latest]

    def items(self, node: StageNode) -> tuple[str, dict[str, Element]]:
        """The list that a stage works through, by id and in order, and the hash of its artifact before it."""
        termination, source = node.termination, node.sources.items if node.sources else None
        assert source is not None
        assert isinstance(termination, Items)
        known = self._history.artifact_of(source)
        if known is None:
            why = "the stage that makes it was passed over, or left none"
            raise UnusableFile(f"there is no artifact for the items {termination.source!r}: {why}")
        digest, elements = self._elements.get(termination.source, (None, {}))
        if digest != known.sha256:
            found = elements_of(self.value(known), termination.field, termination.max)
            elements = {one.id: one for one in found if not isinstance(one, str)}
            if len(elements) < len(found):
                problems = "; ".join(map(str, found))
                raise UnusableFile(f"the items {termination.source!r} can't be used: {problems}")
            self._elements[termination.source] = known.sha256, elements
        return known.sha256, elements


def unusable(node: StageNode, problem: str) -> ErrorOccurred:
    """A stage can't start an agent."""
    return ErrorOccurred(FailureKind.ARTIFACT_UNUSABLE, short_message(problem), node.id, 0)
