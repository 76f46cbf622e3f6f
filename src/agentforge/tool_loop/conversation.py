"""A task's conversation with the model: the instructions, the session on disk that a later attempt can
resume, and the end: the tool `complete` and the result file."""

import os
import re
import uuid
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec
from msgspec import Struct
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, repair_messages
from pydantic_ai.usage import RunUsage

from agentforge.engine.claims import MAX_QUESTIONS
from agentforge.model.errors import NOT_JSON, StorageFailed
from agentforge.model.failure import Failure
from agentforge.model.result import Decision, Usage
from agentforge.system import files
from agentforge.system.schemas import JsonSchema
from agentforge.tool_loop.prices import spent_usd
from agentforge.tool_loop.task import LoopOutcome, ModelTask
from agentforge.tool_loop.toolbox import Toolbox, schema_errors

# A session is kept on disk under its own name, not under that of the attempt, so that a later attempt can
# resume it. The prompt is kept with it: an attempt that is retried has the same prompt and is only told that
# it was interrupted; one with another prompt, such as the answers of a person, continues with that.
#
# If a session can't be read, the work starts over in a new one.

COMPLETE = "complete"
COMPLETE_DESCRIPTION = (
    "Call this when the work is done, when it can't be done, or to ask a person. It ends the task."
)
ASK, ERROR = Decision.ASK.value, Decision.ERROR.value

_TEXTS = {"type": "array", "items": {"type": "string"}}
_FIELDS: dict[str, Any] = {
    "summary": {"type": "string", "description": "What was done, in a few sentences."},
    "decision": {
        "type": "string",
        "enum": ["continue", "stop", "error", ASK],
        "description": "continue: more iterations may improve the work; stop: nothing is left to do; "
        "error: the work can't be done, explain it in `reason`; ask: a person must first answer `questions`.",
    },
    "questions": {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_QUESTIONS,
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "question": {"type": "string"},
                "options": {**_TEXTS, "description": "Without options, any text is an answer."},
                "default": {"type": "string", "description": "One of the options, if there are any."},
                "blocking": {"type": "boolean", "description": "false: continue with the default."},
            },
            "required": ["question"],
        },
        "description": "For the decision ask. You are started again with the answers.",
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
RESUME = """\
You were interrupted. Your earlier work has been kept, but the last tool calls may not have taken effect:
check before you repeat them. Then finish the task, and call `{complete}`.
"""
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")


def complete_schema(
    schema: dict[str, Any] | None, verdicts: Sequence[str] = (), *, returns_items: bool = False
) -> dict[str, Any]:
    """The schema of `complete`. `result` is required with a schema for it, but not in order to ask or to
    report an error: see `complete_errors`."""
    whole: dict[str, Any] = {"type": "object", "properties": dict(_FIELDS), "required": ["summary"]}
    if verdicts:
        about = "Your verdict on the work, if you can give one, with its reason in `reason`."
        verdict = {"type": "string", "enum": list(verdicts), "description": about}
        whole["properties"]["verdict"] = verdict
    if returns_items:
        about = "If the work must be done again, but not for all items: the ids of those that it must be for."
        whole["properties"]["items"] = {**_TEXTS, "description": about}
    if schema is None:
        return whole
    result = deepcopy(schema)
    result.pop("$schema", None)
    definitions = result.pop("$defs", None)
    encoded = msgspec.json.encode([result, definitions]).decode()
    if encoded.count('"$ref"') != _references(result):
        # Only references to definitions keep their meaning when the schema becomes part of another one, and
        # only where they are followed. Another schema becomes a description instead.
        text = msgspec.json.encode(schema).decode()
        result, definitions = {"type": "object", "description": f"Must match this JSON Schema: {text}"}, None
    if definitions:
        whole["$defs"] = definitions
    whole["properties"]["result"] = result
    return whole


def _references(schema: Any) -> int:
    """The references to definitions at the places where pydantic-ai follows them."""
    if not isinstance(schema, dict):
        return 0
    inner: list[Any] = [one for key in ("allOf", "anyOf", "oneOf") for one in schema.get(key, ())]
    if schema.get("type") == "object":
        inner += schema.get("properties", {}).values()
    elif schema.get("type") == "array":
        inner.append(schema.get("items"))
    return str(schema.get("$ref", "")).startswith("#/$defs/") + sum(map(_references, inner))


def complete_errors(given: dict[str, Any], schema: dict[str, Any] | None) -> list[str]:
    """What the schema of `complete` can't express: what is required depends on the decision, and the schema
    of the result may be only its description."""
    wrong: list[str] = []
    if given.get("decision") == ASK:
        wrong = [] if given.get("questions") else ["$: the decision 'ask' needs 'questions'"]
    elif schema is not None and "result" not in given and given.get("decision") != ERROR:
        wrong = ["$: 'result' is a required property"]
    if schema is None or "result" not in given:
        return wrong
    return wrong + schema_errors(JsonSchema(schema), given["result"])


def result_file(given: dict[str, Any], touched: list[str]) -> dict[str, Any]:
    """The content of the iteration's result.json."""
    all_touched = list(dict.fromkeys([*given.get("files_touched", ()), *touched]))
    asked = {"questions": given["questions"]} if given.get("decision") == ASK else {}
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
        **{key: given[key] for key in ("verdict", "items") if key in given},
        **asked,
    }


def write_json(path: str, content: Any) -> None:
    """Write the file atomically. An empty `path` is skipped."""
    if not path:
        return
    files.replace(path, files.pretty(content))


class Session(Struct, frozen=True):
    session: str
    model: str
    prompt: str
    messages: list[Any]
    """In pydantic-ai's format."""

    def history(self) -> list[ModelMessage]:
        return ModelMessagesTypeAdapter.validate_python(self.messages)


class SessionStore:
    """Without a folder, nothing is stored."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def load(self, session: str) -> Session | None:
        """The session, or None if it is missing or unreadable."""
        if not self._folder or not _NAME.fullmatch(session):
            return None
        try:
            kept = msgspec.json.decode(files.read_bytes(self._path(session)) or b"", type=Session)
            kept.history()
        except (StorageFailed, ValueError, *NOT_JSON):
            return None
        return kept

    def save(self, session: str, model: str, prompt: str, messages: list[ModelMessage]) -> None:
        if not self._folder:
            return
        plain = ModelMessagesTypeAdapter.dump_json(messages)
        content = msgspec.json.encode(
            {"session": session, "model": model, "prompt": prompt, "messages": msgspec.Raw(plain)}
        )
        files.make_dir(self._folder)
        files.replace(self._path(session), content)

    def _path(self, session: str) -> str:
        return os.path.join(self._folder, f"{session}.json")


class Conversation(Struct):
    """The state that a task's requests share."""

    session: str
    messages: list[ModelMessage]
    prompt: str | None
    """The prompt to send; None once it is part of the messages."""
    usage: RunUsage
    resumed: bool = False
    steps: int = 0
    """Complete answers; one that broke off doesn't count."""
    ended_by: tuple[str, dict[str, Any]] | None = None
    """The tool call that ended the task, and its input."""
    text: str = ""


def start_conversation(task: ModelTask, store: SessionStore) -> Conversation:
    kept = store.load(task.resume) if task.resume else None
    if kept is None:
        return Conversation(uuid.uuid4().hex, [], task.prompt, RunUsage())
    # The same prompt again would make the model start over.
    prompt = RESUME.format(complete=COMPLETE) if kept.prompt == task.prompt else task.prompt
    return Conversation(kept.session, repair_messages(kept.history()), prompt, RunUsage(), resumed=True)


def write_outcome(
    task: ModelTask, conversation: Conversation, tools: Toolbox, failure: Failure | None
) -> LoopOutcome:
    artifact: Any = None
    if failure is None:
        given: dict[str, Any] = (
            {"summary": conversation.text} if conversation.ended_by is None else conversation.ended_by[1]
        )
        artifact = given.get("result") if task.schema is not None else None
        if artifact is not None:
            write_json(task.files.artifact, artifact)
        write_json(task.files.result, result_file(given, tools.touched))
    return LoopOutcome(
        session=conversation.session,
        text=conversation.text
        if conversation.ended_by is None
        else str(conversation.ended_by[1].get("summary", "")),
        artifact=artifact,
        tool_calls=tuple(tools.calls),
        steps=conversation.steps,
        usage=_usage(task, conversation),
        failure=failure,
    )


def _usage(task: ModelTask, conversation: Conversation) -> Usage:
    """Token counts are None if the server doesn't report them; the price list applies only at the maker's
    endpoint."""
    used = conversation.usage
    # Below a budget, what the server doesn't report is counted, too.
    counted = used.input_tokens or used.output_tokens or task.budget
    return Usage(
        input_tokens=used.input_tokens if counted else None,
        output_tokens=used.output_tokens if counted else None,
        cached_tokens=used.cache_read_tokens or None,
        cost_usd=spent_usd(task, used) if counted else None,
        model=task.endpoint.model,
        agent_session=conversation.session,
    )
