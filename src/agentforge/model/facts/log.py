"""The log itself: imported, repaired, damage accepted."""

from datetime import datetime

from msgspec import Struct, field

from agentforge.model.facts.fact import Fact
from agentforge.model.plan import Mode, Plan
from agentforge.model.plan_limits import folder_defect, plan_defect
from agentforge.model.state import Between, BlockState, RunSettings, StageRecord, StageState


class ImportedStage(Struct, frozen=True, omit_defaults=True):
    """The outputs of one stage of an imported run."""

    path: str
    iterations: int
    outputs: tuple[str, ...]
    """Existing output.md files, oldest first; only the latest if there are many."""
    omitted: int = 0
    result_file: str = ""
    reason: str = ""
    provider: str | None = None


class LogImported(Fact, frozen=True):
    """A run of the shell engine was imported. Everything needed to continue it is here: the lines before
    are history only, and the hash chain starts with this one."""

    TYPE = "log_adopted"

    lines: int
    sha256: str
    """Hash of all lines before this one."""
    mode: Mode
    run_id: str
    plan: Plan
    engine: str
    """The version that imported it."""
    started_at: datetime
    at: StageState | BlockState | Between
    stages: tuple[StageRecord, ...] = ()
    left: tuple[ImportedStage, ...] = ()
    settings: RunSettings = field(default_factory=RunSettings)
    format: int = 1

    def defect(self, _session: str) -> str:
        folder = "" if isinstance(self.at, Between) else self.at.folder
        return plan_defect(self.plan) or folder_defect(folder)


class LogRepaired(Fact, frozen=True):
    """The last line was incomplete; it was archived and truncated."""

    TYPE = "log_repaired"
    EXTERNAL = True
    AFTER_END = True

    bytes: int
    kept: str


class DamageAccepted(Fact, frozen=True):
    """A person chose to continue despite damaged lines."""

    TYPE = "damage_accepted"
    EXTERNAL = True
    AFTER_END = True

    lines: tuple[int, ...]


AnyLogFact = LogImported | LogRepaired | DamageAccepted
