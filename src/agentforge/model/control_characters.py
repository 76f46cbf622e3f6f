"""Characters that control a terminal or reorder its text: names, ids, models and paths can't contain them."""

import re

_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, including newlines; DEL; C1.
    "\u2028\u2029"  # Line and paragraph separators.
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # Direction marks, embeddings, overrides, isolates.
    "\ufeff\ud800-\udfff]"  # A byte order mark; bytes that aren't UTF-8.
)


def control_character(text: str) -> str:
    """The first one, as `U+001B`; or ""."""
    found = _CONTROL.search(text)
    return f"U+{ord(found[0]):04X}" if found else ""
