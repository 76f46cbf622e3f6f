"""The artifact that a run is started with: read, checked against what its stages need, and stored. And the
file of an artifact of another run, which is such an artifact."""

import os
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from agentforge.app.redaction import environment_redactor
from agentforge.model.artifact import (
    DEFAULT_VERSION,
    ENGINE_KEYS,
    INLINE_BYTES,
    MAX_ARTIFACT_BYTES,
    META,
    Artifact,
    is_of_engine,
    other_major,
)
from agentforge.model.errors import NOT_JSON, InvalidRequest, StorageFailed, UnusableFile
from agentforge.model.layout import RunLayout
from agentforge.model.plan import ArtifactSource, Items, Plan
from agentforge.model.plan_limits import VERSION_PATTERN
from agentforge.model.result import JSONObject
from agentforge.runtime.artifacts import decoded, foreign_keys, item_problems, plain, recorded
from agentforge.system import files
from agentforge.views.artifacts import RunKeys, earlier_stages
from agentforge.views.structured_work import ArtifactWork

GivenArtifact = str | Mapping[str, Any] | None
"""A file, or the object."""
HINT = "give one with --artifact FILE (in Python: artifact=…)"


class ArtifactMeta(Struct, frozen=True):
    """Which stage of another run left it."""

    stage: str = ""
    version: Annotated[str, Meta(pattern=rf"^{VERSION_PATTERN}\Z")] = DEFAULT_VERSION
    sha256: str = ""
    """Of the artifact without this, compact: whether the file is as it was written."""


class FirstArtifact(Struct, frozen=True):
    value: JSONObject
    version: str


def first_artifact(
    given: GivenArtifact, plan: Plan, environ: Mapping[str, str], skipped: Collection[str] = ()
) -> FirstArtifact | None:
    """Raises why a run of the plan can't be started with it, or without one. `skipped`: the ids of the stages
    that aren't run."""
    if given is None:
        if missing := _missing({}, plan, skipped):
            raise InvalidRequest(f"{_name(plan)} needs an artifact with {missing}", hint=HINT)
        return None
    where = f"the artifact {given}" if isinstance(given, str) else "the artifact"
    value = decoded(_content(given)) if isinstance(given, str) else plain(given)
    if isinstance(value, str):
        raise InvalidRequest(f"{where} can't be used: {value}", hint="it must be a JSON object")
    # First, since the log and the items have what is left.
    value = environment_redactor(environ).data(value)
    meta = _meta(value.pop(META, None), where)
    rule = next((one.artifact for one in plan.stages if one.artifact and one.id == meta.stage), None)
    if rule is not None and other_major(rule.version, meta.version):
        raise InvalidRequest(
            f"{where} has version {meta.version}, and stage {meta.stage!r} has version {rule.version}",
            hint="give one of the same major version",
        )
    problems = foreign_keys(RunKeys(""), value)
    if missing := _missing(value, plan, skipped):
        problems.append(f"{_name(plan)} needs {missing}")
    else:
        left = (path for (path, branch), one in plan.placed.items() if not branch and one.id in skipped)
        for path in ("", *left):
            problems += item_problems(plan, value, ArtifactSource(path))
    if problems:
        raise InvalidRequest(
            f"{where} can't be used: {'; '.join(problems)}",
            hint="correct it, or give none",
        )
    return FirstArtifact(value, meta.version)


def stored_artifact(found: FirstArtifact, layout: RunLayout) -> Artifact:
    """Write it to the run's folder, durably if the log is to have only its hash."""
    content = files.compact(found.value)
    stored = recorded(os.path.basename(layout.artifact), content, found.value, found.version)
    files.replace(layout.artifact, content, durable=stored.value is None)
    if stored.value is None:
        with files.storage(layout.root):
            files.sync_directory(layout.root)
    return stored


def _content(file: str) -> bytes:
    try:
        content = files.read_named(os.path.abspath(file), MAX_ARTIFACT_BYTES)
    except StorageFailed as error:
        raise InvalidRequest(error.message, hint=HINT) from None
    if content is None:
        raise InvalidRequest(f"the file {file} does not exist", hint=HINT)
    return content


def _meta(given: Any, where: str) -> ArtifactMeta:
    try:
        return msgspec.convert({} if given is None else given, ArtifactMeta)
    except ValueError as error:
        raise InvalidRequest(f"{where}: {META} can't be used: {error}", hint=f"remove {META}") from None


def _missing(value: JSONObject, plan: Plan, skipped: Collection[str]) -> str:
    """The fields that only this artifact can supply, and doesn't."""
    needed = dict[str, None]()
    for (path, branch), stage in plan.placed.items():
        if branch is None and stage.id in skipped:
            continue
        sources = stage.sources
        if sources and sources.artifact and next(earlier_stages(plan, path, branch), None) is None:
            needed |= dict.fromkeys(sources.artifact)
        if sources and sources.items == ArtifactSource("") and isinstance(stage.termination, Items):
            needed[stage.termination.field] = None
    names = [repr(name) for name in needed if name not in ENGINE_KEYS and value.get(name) is None]
    return f"the field{'s'[: len(names) > 1]} {', '.join(names)}" if names else ""


def _name(plan: Plan) -> str:
    return f"the pipeline {plan.pipeline.name!r}"


def write_artifact(artifact: ArtifactWork, path: str | os.PathLike[str]) -> str:
    """Write an artifact to a file, with the stage that left it and its version; returns the absolute path.
    Only a file that was written so, and was not changed since, is replaced. Raises UnusableFile if the
    artifact can't be read."""
    if artifact.value is None:
        raise UnusableFile(artifact.problem, hint="restore the file, or choose another artifact")
    folder, name = os.path.split(os.path.abspath(path))
    place = os.path.join(os.path.realpath(folder), name)
    # The engine sets its keys for each run.
    value = {key: one for key, one in artifact.value.items() if not is_of_engine(key)}
    meta = ArtifactMeta(artifact.stage, artifact.version, _digest(value))
    # Indented, a large one could be too large to be given to a run.
    encode = files.pretty if artifact.size <= INLINE_BYTES else files.compact
    try:
        there = files.read_named(place, 2 * MAX_ARTIFACT_BYTES)
        if there is not None and not _is_copy(there):
            raise InvalidRequest(
                f"{place} exists, and was not written by this command or was changed since",
                hint="choose a new file",
            )
        files.replace(place, encode({META: meta, **value}))
    except StorageFailed as error:
        hint = "choose a file in a folder that exists and that you may write to"
        raise type(error)(error.message, hint=hint) from error
    return place


def _is_copy(content: bytes) -> bool:
    try:
        value = msgspec.json.decode(content, type=dict[str, Any])
    except NOT_JSON:
        return False
    meta = value.pop(META, None)
    return isinstance(meta, dict) and meta.get("sha256") == _digest(value)


def _digest(value: JSONObject) -> str:
    return sha256(files.compact(value)).hexdigest()
