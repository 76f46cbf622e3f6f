"""Facts that add a note to the context: recorded with a warning if older notes no longer fit."""

import logging

from agentforge.model import facts as f
from agentforge.model.state import MAX_NOTES_BYTES
from agentforge.runtime.journal import Journal

log = logging.getLogger("agentforge.run")


def record_note(journal: Journal, fact: f.AnyFact) -> None:
    """Record a fact that adds one note. The log keeps every note; agents get the latest."""
    before = len(journal.state.notes)
    journal.record(fact, journal.state.cursor)
    dropped = before + 1 - len(journal.state.notes)
    if dropped > 0:
        log.warning(
            "the oldest notes no longer fit into the context (%d bytes in total): dropped %d",
            MAX_NOTES_BYTES,
            dropped,
        )
