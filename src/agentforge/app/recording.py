"""A recording of a run: its cassette and the file that it was read from."""

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from agentforge.model.errors import InvalidRequest, ProviderUnusable
from agentforge.system import files

if TYPE_CHECKING:
    from agentforge.model.cassette import Cassette


class Replay(Struct, frozen=True):
    """The cassette to play back instead of calling providers."""

    recording: "Recording"
    speed: float = 0.0
    """1 is as recorded, 2 twice as fast, 0 without waiting."""
    allow_commands: bool = False
    """Whether to run the commands of the cassette."""
    overwrite: bool = False
    """Whether to overwrite files with uncommitted changes."""


class Recording(Struct, frozen=True):
    """A cassette and its file."""

    path: str
    content: bytes
    cassette: "Cassette"

    @property
    def name(self) -> str:
        """The session that was recorded, or the file's name."""
        return self.cassette.header.session or os.path.splitext(os.path.basename(self.path))[0]

    @property
    def notes(self) -> list[str]:
        """What could not be recorded."""
        return [note for exchange in self.cassette.exchanges for note in exchange.notes]

    def replay(self, speed: float, *, allow_commands: bool = False, overwrite: bool = False) -> Replay:
        return Replay(self, speed, allow_commands, overwrite)


def is_cassette_file(source: str) -> bool:
    """Whether the source is a path, not a session."""
    return source.endswith(".jsonl") or os.sep in source


def read_recording(path: str) -> Recording:
    from agentforge.model.cassette import MAX_CASSETTE, parse_cassette  # `status` needs neither.

    content = files.read_named(path, MAX_CASSETTE)
    if content is None:
        raise InvalidRequest(f"cassette not found: {path}", hint="give a session or the path of a cassette")
    try:
        cassette = parse_cassette(content.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"cannot read cassette {path}: not UTF-8 text", hint="give a cassette that `--record` made"
        ) from error
    except ProviderUnusable as error:
        raise InvalidRequest(error.message, hint=error.hint) from error
    return Recording(path, content, cassette)
