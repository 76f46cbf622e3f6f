"""Rules for session names."""

import re
import unicodedata

from agentforge.model.errors import InvalidSession

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


def name_problem(text: str) -> str:
    """Why a text that was found, as the name of a folder, isn't a session name; empty if it is one."""
    try:
        return "" if session_name(text) == text else "its name is not normalized"
    except InvalidSession:
        return "its name is not a session name"
