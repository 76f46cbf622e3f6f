"""What the views of `show` print: entries with a mark, a title and rows."""

from datetime import tzinfo

from msgspec import Struct


class EntryRow(Struct, frozen=True):
    """One property; `lines` follow below it."""

    label: str
    value: str
    lines: tuple[str, ...] = ()


class RunEntry(Struct, frozen=True):
    mark: str
    title: str
    rows: tuple[EntryRow, ...] = ()


class Shown(Struct, frozen=True):
    """What the text of an entry depends on beside the entry itself."""

    run_dir: str
    status: str
    """Of the run."""
    zone: tzinfo
    details: bool = False
