"""Why a test may be skipped: the reason begins with one of these classes. Any other skip is a failure.

`ALLOWED_SKIPS` names the classes that may occur, such as `program sandbox`: CI says so, and a skip of
another class fails there.
"""

import os

CLASSES = {
    "platform": "looks into /proc or uses namespaces, which only Linux has",
    "privileges": "root, its absence or a mount namespace is needed, and this system doesn't grant it",
    "program": "a program outside of Python is missing: tmux, unshare, setpriv, openssl, groff, zsh, fish",
    "index": "the package index can't be reached",
    "sandbox": "bubblewrap or Docker is missing, or the kernel refuses it",
    "agent": "claude or codex isn't installed; `make agents-pypi` does",
    "npm-agent": "opencode or gemini isn't installed; `make agents` does, with npm",
    "peers": "the systems that are measured beside AgentForge aren't installed; `make peers` does",
    "contract": "what the contract of a port leaves open for such an adapter",
}


def class_of(reason: str) -> str:
    """Empty: none that is known."""
    name, colon, _ = reason.partition(": ")
    return name if colon and name in CLASSES else ""


def error(reason: str, allowed: str | None = None) -> str:
    """What is wrong with a skip; empty if a reader accepts it."""
    found = class_of(reason)
    if not found:
        return f"skipped without a known class of reason (tests/skips.py): {reason!r}"
    allowed = os.environ.get("ALLOWED_SKIPS") if allowed is None else allowed
    if allowed is not None and found not in allowed.split():
        return f"skipped although it could run here: {reason!r}"
    return ""
