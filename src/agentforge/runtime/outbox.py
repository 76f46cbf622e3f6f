"""A folder of an attempt outside `.claude`, for agents that refuse to write there: the engine moves the
result from it to the iteration's folder."""

import os
from hashlib import sha256

from agentforge.model.layout import OUTBOX, IterationLayout
from agentforge.system import files

IGNORE_ALL = b"*\n"


def outbox_of(project: str, mark: str) -> str:
    return os.path.join(project, OUTBOX, sha256(mark.encode()).hexdigest()[:20])


def make_outbox(path: str) -> None:
    """Anything found there is moved aside: it isn't of this attempt."""
    files.make_dir(os.path.dirname(path))
    ignore = os.path.join(os.path.dirname(path), ".gitignore")
    if not os.path.lexists(ignore):
        files.place(ignore, IGNORE_ALL)
    if os.path.lexists(path):
        files.move_aside(path)
    files.make_new_dir(path)


def empty_outbox(path: str, here: IterationLayout, attempt: int) -> None:
    """Move the result to the iteration's folder, and the rest to the attempt's; safe to repeat."""
    if not files.is_dir(path):
        return
    for target in (here.result, here.status):
        found = os.path.join(path, os.path.basename(target))
        if os.path.lexists(found):
            files.move(found, target)
    files.move(path, os.path.join(here.attempt(attempt).root, "outbox"))
