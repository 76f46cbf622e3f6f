"""Which names are valid (of sessions), harmless (without control characters), protected (folders that agents
must not change) and known (the variables of prompts)."""

import re
import unicodedata
from datetime import UTC, datetime
from typing import Final

from agentforge.model.errors import InvalidSession

DEFAULT_PIPELINE: Final = "loop"
"""Runs a user request, if no other pipeline is named."""

MAX_SESSION_CHARS = 64
# A session names files such as `<session>.lock`; file systems allow 255 bytes in a name.
MAX_SESSION_BYTES = 200

_SESSION = re.compile(r"[^\W_](?:[\w.-]*)|_[\w.-]*|-[\w.-]*")
# The time that is added to the name of a run when it is archived; it doesn't count against the limits.
_ARCHIVED = re.compile(r"\.\d{8}-\d{6}-\d{6}\Z", re.ASCII)


def session_argument(session: str) -> str:
    """The session as an argument of a command line: a leading dash must not make it an option."""
    return f"-- {session}" if session.startswith("-") else session


def session_name(text: str) -> str:
    """Normalize and validate a session name; called before the name touches any path."""
    # The same letters can be written in two ways, which some file systems tell apart and others don't.
    name = unicodedata.normalize("NFC", text)
    if not name:
        raise InvalidSession("Session name cannot be empty", hint="give a name such as `auth` or `fix-login`")
    given = _ARCHIVED.sub("", name)
    if len(given) > MAX_SESSION_CHARS or len(given.encode("utf-8", "replace")) > MAX_SESSION_BYTES:
        raise InvalidSession(
            f"Session name too long (max {MAX_SESSION_CHARS} characters): {name[:24]}…",
            hint="choose a shorter name",
        )
    if not _SESSION.fullmatch(name):
        if name.startswith("."):
            raise InvalidSession(f"Session name {name!r} must not start with '.'", hint="remove it")
        raise InvalidSession(
            f"Session name {name!r} must contain only letters, digits, '-', '_' and '.'",
            hint="replace other characters, for example with '-'",
        )
    return name


_PIPELINE_ID = re.compile(r"PL-[0-9A-Za-z-]+")


def pipeline_id(now: datetime, random: str) -> str:
    """The session of a run that is not named: `PL-20260102153000-1a2b3c4d`. `random`: eight hex digits."""
    return f"PL-{now.astimezone(UTC):%Y%m%d%H%M%S}-{random}"


def is_pipeline_id(session: str) -> bool:
    return _PIPELINE_ID.fullmatch(session) is not None


def session_problem(session: str) -> str:
    """Why a session that a file names isn't a session name; empty if it is one."""
    try:
        session_name(session)
    except InvalidSession as error:
        return error.message
    return ""


def name_problem(text: str) -> str:
    """Why a text that was found, as the name of a folder, isn't a session name; empty if it is one."""
    try:
        return "" if session_name(text) == text else "its name is not normalized"
    except InvalidSession:
        return "its name is not a session name"


# They control a terminal or reorder its text: names, ids, models and paths can't contain them.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, including newlines; DEL; C1.
    "\u2028\u2029"  # Line and paragraph separators.
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # Direction marks, embeddings, overrides, isolates.
    "\ufeff\ud800-\udfff]"  # A byte order mark; bytes that aren't UTF-8.
)


def control_character(text: str) -> str:
    """The first control character, as `U+001B`; or ""."""
    found = _CONTROL.search(text)
    return f"U+{ord(found[0]):04X}" if found else ""


PROTECTED: Final = (".git", ".claude", ".agentforge")
"""Folders of git, of agents' settings and of the engine, compared as tolerantly as any file system does."""

_IGNORABLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
"""Invisible characters that are no format characters: Unicode says that they may be ignored, too."""


def folded(path: str) -> str:
    """The path without what some file system ignores: case, the form of a character and invisible characters
    (macOS, ext4), dots and spaces at the end of a name and all after a colon (Windows)."""
    visible = "".join(letter for letter in path if unicodedata.category(letter) != "Cf")
    plain = unicodedata.normalize("NFD", _IGNORABLE.sub("", visible)).casefold()
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", plain).casefold())
    return "/".join(step.partition(":")[0].rstrip(". ") or step for step in plain.split("/"))


def protected_step(path: str) -> str | None:
    """The protected name in the path, at any depth."""
    return next((step for step in folded(path).split("/") if step in PROTECTED), None)


CURRENT = (
    *("CTX", "STATUS", "RESULT", "PROGRESS", "OUTPUT", "FEEDBACK", "ANSWERS", "REQUEST"),
    *("ARTIFACT", "SCHEMA", "INPUT_ARTIFACT", "ITEM", "BRIEFING"),
)
DEPRECATED = ("SESSION", "SESSION_NAME", "ITERATION", "INDEX", "CONTEXT")
LEGACY = ("PERSPECTIVE", "OUTPUT_PATH", "PROGRESS_FILE")
"""Variables of agent-pipelines, rarely used."""

PROMPT_VARIABLES = (*CURRENT, *DEPRECATED, *LEGACY)
