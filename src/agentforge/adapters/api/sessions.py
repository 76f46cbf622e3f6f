"""A model's conversation on disk, so that a later attempt can go on with it."""

import os
import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from agentforge.host import files
from agentforge.model.errors import StorageFailed

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
