"""Facts about the log itself: imported, repaired, damage accepted."""

from datetime import datetime

from msgspec import Struct, field

from agentforge.model.facts.fact import Fact
from agentforge.model.plan import Mode, Plan
from agentforge.model.state import Between, BlockState, RunSettings, StageRecord, StageState


class StageLeft(Struct, frozen=True, omit_defaults=True):
    """What the iterations of one stage of an imported run left behind."""

    path: str
    iterations: int
    outputs: tuple[str, ...]
    """Every output.md that exists, oldest first; the latest ones, if they are many."""
    omitted: int = 0
    result_file: str = ""
    reason: str = ""
    provider: str | None = None


class LogImported(Fact, frozen=True):
    """A run of agent-pipelines' own engine was imported. All that is needed to continue it is here: the
    lines before are only its past, and the chain begins with this one."""

    TYPE = "log_adopted"

    lines: int
    sha256: str
    """Of all lines before this one."""
    mode: Mode
    run_id: str
    plan: Plan
    engine: str
    """The version that imported it."""
    started_at: datetime
    at: StageState | BlockState | Between
    stages: tuple[StageRecord, ...] = ()
    left: tuple[StageLeft, ...] = ()
    settings: RunSettings = field(default_factory=RunSettings)
    format: int = 1


class LogRepaired(Fact, frozen=True):
    """The last line was torn; it was kept aside and cut off."""

    TYPE = "log_repaired"

    bytes: int
    kept: str


class DamageAccepted(Fact, frozen=True):
    """A person chose to go on over damaged lines."""

    TYPE = "damage_accepted"

    lines: tuple[int, ...]
