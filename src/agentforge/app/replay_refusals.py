"""What a replay does only if the user allows it: running the commands of a cassette, and overwriting work
that isn't committed."""

import hashlib
import os
import shlex
from base64 import b64decode
from collections.abc import Mapping, Sequence, Set

from agentforge.adapters.host.project_files import WorkspaceFiles, committed_files
from agentforge.app.recording import Replay
from agentforge.model.cassette import Cassette, WriteFile
from agentforge.model.errors import InvalidRequest

MAX_FILE = 64 * 1024 * 1024
MAX_SHOWN = 5


def refuse_unsafe_replay(replay: Replay, project: str, environ: Mapping[str, str]) -> None:
    cassette, path = replay.recording.cassette, replay.recording.path
    if cassette.commands and not replay.allow_commands:
        commands = [f"`{shlex.join(argv)}`" for argv in cassette.commands]
        raise InvalidRequest(
            f"{path} runs commands: {_shown(commands)}",
            hint="read them, then allow them with --allow-commands (in Python: allow_commands=True)",
        )
    if not replay.overwrite and (changed := uncommitted(_written(cassette), project, environ)):
        raise InvalidRequest(
            f"the replay would overwrite work that is not committed: {_shown(changed)}",
            hint="use a clean checkout (`git worktree add`), commit or move the files, or allow it with "
            "--overwrite (in Python: overwrite=True)",
        )


def _written(cassette: Cassette) -> dict[str, set[bytes | None]]:
    """The files that a replay changes, each with all contents that the recording gives it. The engine itself
    replaces no one's file at an `output_path`."""
    steps = cassette.file_steps.items()
    return {path: {_content(step) for step in given if isinstance(step, WriteFile)} for path, given in steps}


def uncommitted(
    written: Mapping[str, Set[bytes | None]], project: str, environ: Mapping[str, str]
) -> list[str]:
    """The paths whose content would be lost: it is in neither the latest commit nor the recording."""
    present = [path for path in written if os.path.lexists(os.path.join(project, path))]
    committed = committed_files(project, environ) if present else {}
    files = WorkspaceFiles(project, environ)
    return [
        path
        for path in present
        if _is_lost(files.read(path, MAX_FILE), written[path], committed.get(path, ""))
    ]


def _is_lost(content: bytes | None, recorded: Set[bytes | None], committed: str) -> bool:
    if content is None:
        return True
    algorithm = "sha256" if len(committed) == 64 else "sha1"
    blob = hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False)
    return content not in recorded and blob.hexdigest() != committed


def _content(step: WriteFile) -> bytes | None:
    if step.base64 is None:
        return (step.text or "").encode("utf-8", "surrogateescape")
    try:
        return b64decode(step.base64)
    except ValueError:
        return None


def _shown(items: Sequence[str]) -> str:
    more = f" and {len(items) - MAX_SHOWN} more" if len(items) > MAX_SHOWN else ""
    return ", ".join(items[:MAX_SHOWN]) + more
