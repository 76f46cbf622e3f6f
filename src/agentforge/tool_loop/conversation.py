"""A task's conversation with the model: what it is told, how it is kept on disk, so that a later attempt can
go on with it, and how it ends: the tool `complete`, and the result file that it becomes."""

import os
import re
import uuid
from copy import deepcopy
from typing import Any

import msgspec
from msgspec import Struct
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, repair_messages
from pydantic_ai.usage import RunUsage

from agentforge.model.errors import StorageFailed
from agentforge.model.failure import Failure
from agentforge.model.result import Usage
from agentforge.system import files
from agentforge.tool_loop.task import ModelTask, TaskOutcome
from agentforge.tool_loop.tools.toolbox import Toolbox

COMPLETE = "complete"
COMPLETE_DESCRIPTION = (
    "Call this when the work is done, or when it can't be done. It ends the task; nothing can follow."
)

_TEXTS = {"type": "array", "items": {"type": "string"}}
_FIELDS: dict[str, Any] = {
    "summary": {"type": "string", "description": "What was done, in a few sentences."},
    "decision": {
        "type": "string",
        "enum": ["continue", "stop", "error"],
        "description": "continue: more iterations may improve the work; stop: nothing is left to do; "
        "error: the work can't be done, say why in `reason`.",
    },
    "reason": {"type": "string", "description": "Why this decision."},
    "items_completed": _TEXTS,
    "files_touched": _TEXTS,
    "outputs": _TEXTS,
    "paths": _TEXTS,
    "plateau_suspected": {"type": "boolean"},
    "risk": {"type": "string", "enum": ["low", "medium", "high"]},
    "notes": {"type": "string"},
    "errors": _TEXTS,
}
SYSTEM = """\
You are a step of an automated pipeline and work on the files in {workspace}. Nobody reads along and nobody
can answer questions: decide for yourself. Use the tools to look at the files and to change them; paths are
relative to that folder. When the work is done, call `{complete}` with a summary and your decision. Where the
task asks for a result.json or a status.json, `{complete}` writes it: give it the same content instead.
"""
GO_ON = """\
You were interrupted. What you did before has been kept, but the last tool calls may not have taken effect:
look before you repeat them. Then finish the task, and call `{complete}`.
"""
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")


def complete_schema(schema: dict[str, Any] | None) -> dict[str, Any]:
    """The schema of `complete`; with a schema for the result, it must be given and fit."""
    whole: dict[str, Any] = {"type": "object", "properties": dict(_FIELDS), "required": ["summary"]}
    if schema is None:
        return whole
    result = deepcopy(schema)
    result.pop("$schema", None)
    definitions = result.pop("$defs", None)
    if _refers(result, definitions):
        # A reference that would point elsewhere from within another schema is said in words instead.
        told = msgspec.json.encode(schema).decode()
        result, definitions = {"type": "object", "description": f"Must fit this JSON Schema: {told}"}, None
    if definitions:
        whole["$defs"] = definitions
    whole["properties"]["result"] = result
    whole["required"].append("result")
    return whole


def result_file(given: dict[str, Any], touched: list[str]) -> dict[str, Any]:
    """What the engine reads as an iteration's result."""
    all_touched = list(dict.fromkeys([*given.get("files_touched", ()), *touched]))
    return {
        "summary": given.get("summary", ""),
        "decision": given.get("decision", "continue"),
        "reason": given.get("reason", ""),
        "work": {"items_completed": given.get("items_completed", []), "files_touched": all_touched},
        "artifacts": {"outputs": given.get("outputs", []), "paths": given.get("paths", [])},
        "signals": {
            "plateau_suspected": given.get("plateau_suspected", False),
            "risk": given.get("risk", "low"),
            "notes": given.get("notes", ""),
        },
        "errors": given.get("errors", []),
    }


def put(path: str, content: Any) -> None:
    """All at once: whoever reads it finds nothing or everything."""
    if not path:
        return
    files.replace(path, files.pretty(content), draft=f"{path}.{os.getpid()}.tmp")


def _refers(node: Any, definitions: Any) -> bool:
    """Whether anything refers to another place than a definition that doesn't itself refer on."""
    text = msgspec.json.encode([node, definitions]).decode()
    inner = msgspec.json.encode(definitions).decode()
    return '"$ref"' in inner or text.count('"$ref"') != text.count('"$ref":"#/$defs/')


def system_of(task: ModelTask) -> str:
    return task.system or SYSTEM.format(workspace=task.files.workspace, complete=COMPLETE)


def go_on() -> str:
    return GO_ON.format(complete=COMPLETE)


class Session(Struct, frozen=True):
    session: str
    model: str
    prompt: str
    messages: list[Any]
    """As pydantic-ai spells them."""

    def history(self) -> list[ModelMessage]:
        return ModelMessagesTypeAdapter.validate_python(self.messages)


class SessionStore:
    """Keeps nothing where there is no folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def load(self, session: str) -> Session | None:
        """The session, or None if there is none that can be read."""
        if not self._folder or not _NAME.fullmatch(session):
            return None
        try:
            return msgspec.json.decode(files.read_bytes(self._path(session)) or b"", type=Session)
        except (StorageFailed, msgspec.DecodeError):
            return None

    def save(self, session: str, model: str, prompt: str, messages: list[ModelMessage]) -> None:
        if not self._folder:
            return
        plain = ModelMessagesTypeAdapter.dump_json(messages)
        content = msgspec.json.encode(
            {"session": session, "model": model, "prompt": prompt, "messages": msgspec.Raw(plain)}
        )
        files.make_dir(self._folder)
        path = self._path(session)
        files.replace(path, content, draft=f"{path}.{os.getpid()}.tmp")

    def _path(self, session: str) -> str:
        return os.path.join(self._folder, f"{session}.json")


class Conversation(Struct):
    """What a task's requests have in common."""

    session: str
    messages: list[ModelMessage]
    prompt: str | None
    """What is still to be said; nothing once it is part of the messages."""
    usage: RunUsage
    resumed: bool = False
    steps: int = 0
    """Answers that were whole; one that broke off is no step."""
    ended_by: tuple[str, dict[str, Any]] | None = None
    """The tool whose call ended the task, and what it was given."""
    text: str = ""


def begin(task: ModelTask, store: SessionStore) -> Conversation:
    kept = store.load(task.resume) if task.resume else None
    if kept is None:
        return Conversation(uuid.uuid4().hex, [], task.prompt, RunUsage())
    # The same prompt again would have the model begin anew.
    prompt = go_on() if kept.prompt == task.prompt else task.prompt
    return Conversation(kept.session, repair_messages(kept.history()), prompt, RunUsage(), resumed=True)


def concluded(task: ModelTask, talk: Conversation, tools: Toolbox, failure: Failure | None) -> TaskOutcome:
    artifact: Any = None
    if failure is None:
        given: dict[str, Any] = {"summary": talk.text} if talk.ended_by is None else talk.ended_by[1]
        artifact = given.get("result") if task.schema is not None else None
        if artifact is not None:
            put(task.files.artifact, artifact)
        put(task.files.result, result_file(given, tools.touched))
    return TaskOutcome(
        session=talk.session,
        text=talk.text if talk.ended_by is None else str(talk.ended_by[1].get("summary", "")),
        artifact=artifact,
        tool_calls=tuple(tools.calls),
        steps=talk.steps,
        usage=_usage(task, talk),
        failure=failure,
    )


def _usage(task: ModelTask, talk: Conversation) -> Usage:
    """Servers that don't count give nothing, and a price holds only for whom it was made."""
    used = talk.usage
    counted = used.input_tokens or used.output_tokens
    return Usage(
        input_tokens=used.input_tokens if counted else None,
        output_tokens=used.output_tokens if counted else None,
        cached_tokens=used.cache_read_tokens or None,
        cost_usd=float(used.cost) if counted and task.endpoint.priced and used.cost is not None else None,
        model=task.endpoint.model,
        agent_session=talk.session,
    )
