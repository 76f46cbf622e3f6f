"""Prompt templates: plain replacement in one pass, so a value is never read as a template itself."""

import re
from collections.abc import Mapping

CURRENT = ("CTX", "STATUS", "RESULT", "PROGRESS", "OUTPUT")
DEPRECATED = ("SESSION", "SESSION_NAME", "ITERATION", "INDEX", "CONTEXT")
LEGACY = ("PERSPECTIVE", "OUTPUT_PATH", "PROGRESS_FILE")
"""Of agent-pipelines: known, seldom used."""

VARIABLES = (*CURRENT, *DEPRECATED, *LEGACY)

_PLACEHOLDER = re.compile(r"\$\{(" + "|".join(VARIABLES) + r")\}")
_ANY = re.compile(r"\$\{([A-Z_]+)\}")
_SESSION = re.compile(r"\$\{SESSION(?:_NAME)?\}")


def render(text: str, values: Mapping[str, str]) -> str:
    """The text with every known variable replaced; one without a value becomes empty, unknown ones stay."""
    return _PLACEHOLDER.sub(lambda found: values.get(found.group(1), ""), text)


def substitute_session(path: str, session: str) -> str:
    """An `output_path` with the session's name filled in."""
    return _SESSION.sub(lambda _: session, path)


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with exactly these variables replaced, in one pass; all others stay."""
    return _ANY.sub(lambda found: values.get(found.group(1), found.group(0)), text)
