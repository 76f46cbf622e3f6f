"""A task's conversation with the model: how it begins, how it is kept on disk, so that a later attempt can go
on with it, and what comes of it."""

import os
import re
import uuid
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from pydantic_ai.messages import ModelMessage, repair_messages
from pydantic_ai.usage import RunUsage

from agentforge.adapters.api.completion import go_on, put, result_file
from agentforge.adapters.api.task import Outcome, Task
from agentforge.adapters.api.toolbox import Toolbox
from agentforge.host import files
from agentforge.model.errors import StorageFailed
from agentforge.model.failure import Failure
from agentforge.model.result import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage


_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")


class Session(Struct, frozen=True):
    session: str
    model: str
    prompt: str
    messages: list[Any]
    """As pydantic-ai spells them."""

    def history(self) -> "list[ModelMessage]":
        from pydantic_ai.messages import ModelMessagesTypeAdapter

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

    def save(self, session: str, model: str, prompt: str, messages: "list[ModelMessage]") -> None:
        if not self._folder:
            return
        from pydantic_ai.messages import ModelMessagesTypeAdapter

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


def begin(task: Task, store: SessionStore) -> Conversation:
    kept = store.load(task.resume) if task.resume else None
    if kept is None:
        return Conversation(uuid.uuid4().hex, [], task.prompt, RunUsage())
    # The same prompt again would have the model begin anew.
    prompt = go_on() if kept.prompt == task.prompt else task.prompt
    return Conversation(kept.session, repair_messages(kept.history()), prompt, RunUsage(), resumed=True)


def concluded(task: Task, talk: Conversation, tools: Toolbox, failure: Failure | None) -> Outcome:
    artifact: Any = None
    if failure is None:
        given: dict[str, Any] = {"summary": talk.text} if talk.ended_by is None else talk.ended_by[1]
        artifact = given.get("result") if task.schema is not None else None
        if artifact is not None:
            put(task.files.artifact, artifact)
        put(task.files.result, result_file(given, tools.touched))
    return Outcome(
        session=talk.session,
        text=talk.text if talk.ended_by is None else str(talk.ended_by[1].get("summary", "")),
        artifact=artifact,
        tool_calls=tuple(tools.calls),
        steps=talk.steps,
        usage=_usage(task, talk),
        failure=failure,
    )


def _usage(task: Task, talk: Conversation) -> Usage:
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
