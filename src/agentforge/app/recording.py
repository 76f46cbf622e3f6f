"""A recording of a run: its cassette and the file that it was read from."""

import os
from functools import cached_property
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


class Recording(Struct, frozen=True, dict=True):
    """A cassette and its file."""

    path: str
    content: bytes

    @cached_property
    def cassette(self) -> "Cassette":
        """Parsed once. Raises InvalidRequest if the content is not a cassette, as `read_recording` does."""
        from agentforge.model.cassette import parse_cassette  # `status` doesn't need it.

        try:
            return parse_cassette(self.content.decode("utf-8"), self.path)
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"cannot read cassette {self.path}: not UTF-8 text",
                hint="give a cassette that `--record` made",
            ) from error
        except ProviderUnusable as error:
            raise InvalidRequest(error.message, hint=error.hint) from error

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
    """Raises InvalidRequest if there is no cassette at the path."""
    from agentforge.model.cassette import MAX_CASSETTE

    content = files.read_named(path, MAX_CASSETTE)
    if content is None:
        raise InvalidRequest(f"cassette not found: {path}", hint="give a session or the path of a cassette")
    recording = Recording(path, content)
    _ = recording.cassette
    return recording
