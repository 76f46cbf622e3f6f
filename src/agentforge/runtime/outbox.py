"""A folder of an attempt outside `.claude`, for agents that refuse to write there. It has copies of the
context and of the notes; the engine moves notes and result from it to their places."""

import os
from hashlib import sha256

import msgspec

from agentforge.model.layout import OUTBOX, IterationLayout
from agentforge.ports.provider import ExecuteRequest
from agentforge.system import files

IGNORE_ALL = b"*\n"
MAX_NOTES = 16 * 1024 * 1024


def outbox_of(project: str, mark: str) -> str:
    return os.path.join(project, OUTBOX, sha256(mark.encode()).hexdigest()[:20])


def make_outbox(request: ExecuteRequest) -> None:
    """Anything found there is moved aside: it isn't of this attempt."""
    path, paths = request.outbox, request.outbox_paths
    files.make_dir(os.path.dirname(path))
    ignore = os.path.join(os.path.dirname(path), ".gitignore")
    if not os.path.lexists(ignore):
        files.place(ignore, IGNORE_ALL)
    if os.path.lexists(path):
        files.move_aside(path)
    files.make_new_dir(path)
    if (notes := files.read_usable(request.progress_path, MAX_NOTES)) is not None:
        files.write(paths[request.progress_path], notes)
    if (context := files.read_usable(request.context_path)) is not None:
        for place, other in paths.items():
            context = context.replace(msgspec.json.encode(place), msgspec.json.encode(other))
        files.write(paths[request.context_path], context)


def empty_outbox(path: str, here: IterationLayout, attempt: int, progress: str = "") -> None:
    """Move the notes and the result to their places, and the rest to the attempt's folder; safe to repeat.
    Notes that are no regular file are not taken."""
    if not files.is_dir(path):
        return
    notes = os.path.join(path, os.path.basename(progress))
    if progress and files.is_file(notes):
        files.move(notes, progress)
    for target in (here.result, here.status):
        found = os.path.join(path, os.path.basename(target))
        if os.path.lexists(found):
            files.move(found, target)
    files.move(path, os.path.join(here.attempt(attempt).root, "outbox"))
