"""A recording of a run: its cassette, and where it is from."""

import os

from msgspec import Struct

from agentforge.model.cassette import Cassette, parse_cassette
from agentforge.model.errors import InvalidRequest, ProviderUnusable
from agentforge.system import files


class Replay(Struct, frozen=True):
    """What is played instead of asking anybody."""

    content: bytes
    speed: float = 0.0
    """2 is twice as fast as recorded, 0 doesn't wait."""
    plateau_test: bool = False


class Recording(Struct, frozen=True):
    """A cassette, and where it is from."""

    path: str
    content: bytes
    cassette: Cassette

    @property
    def name(self) -> str:
        """The session that was recorded, or the file's own name."""
        return self.cassette.header.session or os.path.splitext(os.path.basename(self.path))[0]

    @property
    def notes(self) -> list[str]:
        """What couldn't be kept when it was recorded."""
        return [note for exchange in self.cassette.exchanges for note in exchange.notes]

    def replay(self, speed: float) -> Replay:
        return Replay(self.content, speed, self.cassette.header.plateau_test)


def is_cassette_file(source: str) -> bool:
    """Whether a path is meant, not a session."""
    return source.endswith(".jsonl") or os.sep in source


def read_recording(path: str) -> Recording:
    content = files.read_bytes(path)
    if content is None:
        raise InvalidRequest(f"cassette not found: {path}", hint="give a session or the path of a cassette")
    try:
        cassette = parse_cassette(content.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"cassette {path} can't be read: not UTF-8 text") from error
    except ProviderUnusable as error:
        raise InvalidRequest(error.message, hint=error.hint) from error
    return Recording(path, content, cassette)
