"""What a replay does only if the user allows it: running the commands of a cassette, and overwriting work
that isn't committed."""

import hashlib
import os
import shlex
from base64 import b64decode
from collections.abc import Mapping, Sequence

from agentforge.adapters.host.project_files import WorkspaceFiles, committed_files
from agentforge.app.recording import Replay
from agentforge.model.cassette import FileStep, WriteFile
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
    if replay.overwrite:
        return
    if changed := uncommitted(cassette.file_steps, project, environ):
        raise InvalidRequest(
            f"the replay would overwrite work that is not committed: {_shown(changed)}",
            hint="use a clean checkout (`git worktree add`), commit or move the files, or allow it with "
            "--overwrite (in Python: overwrite=True)",
        )


def uncommitted(
    steps: Mapping[str, Sequence[FileStep]], project: str, environ: Mapping[str, str]
) -> list[str]:
    """The paths whose content would be lost: it is in neither the latest commit nor the recording."""
    present = [path for path in steps if os.path.lexists(os.path.join(project, path))]
    committed = committed_files(project, environ) if present else {}
    files = WorkspaceFiles(project, environ)
    return [path for path in present if _is_lost(files, path, steps[path], committed.get(path, ""))]


def _is_lost(files: WorkspaceFiles, path: str, steps: Sequence[FileStep], committed: str) -> bool:
    content = files.read(path, MAX_FILE)
    if content is None:
        return True
    if any(isinstance(step, WriteFile) and _content(step) == content for step in steps):
        return False
    algorithm = "sha256" if len(committed) == 64 else "sha1"
    blob = hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False)
    return blob.hexdigest() != committed


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
