"""One finding of `doctor`."""

from typing import Literal, get_args

from msgspec import Struct

ProbeLevel = Literal["ok", "note", "warning", "broken"]
Group = Literal[
    "machine",
    "project",
    "tools",
    "agents",
    "environment",
    "models",
    "sandboxes",
    "providers",
    "hooks",
    "settings",
]
"""In the order in which they are shown."""
GROUPS = get_args(Group)


class Probe(Struct, frozen=True):
    """One finding about this machine, project or environment, with the exact fix."""

    group: Group
    name: str
    level: ProbeLevel
    found: str
    fix: str = ""
