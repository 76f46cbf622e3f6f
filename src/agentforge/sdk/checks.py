"""One finding about this machine, project or environment, with the exact fix."""

from typing import Literal

from msgspec import Struct

Level = Literal["ok", "note", "warning", "broken"]
Group = Literal[
    "machine",
    "project",
    "tools",
    "agents",
    "environment",
    "models",
    "sandboxes",
    "providers",
    "settings",
]
"""In the order in which they are shown."""


class Check(Struct, frozen=True):
    group: Group
    name: str
    level: Level
    found: str
    fix: str = ""
