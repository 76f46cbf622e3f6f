"""What a run would execute, for the person who decides whether to trust it."""

from typing import Any

from msgspec import Struct, field


class Execution(Struct, frozen=True, omit_defaults=True):
    """One provider of a stage, the judge, a hook or a notification."""

    stage: str
    provider: str
    model: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    """Those of the provider: programs, arguments, permissions."""
    sandbox: str = "none"
    network: bool = True
    commands: dict[str, str] = field(default_factory=dict)
    """Commands for the agent, and that of the queue."""
