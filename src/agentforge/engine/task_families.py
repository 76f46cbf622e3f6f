"""The facts of each kind of task: its intent and its outcomes. One row per kind.

A kind without an intent is idempotent: it is started again after a crash.
"""

from collections.abc import Mapping

from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.task import TaskKind

Started = type[f.AttemptStarted] | type[f.JudgeStarted] | type[f.HookStarted] | type[f.CheckStarted]


class Family(Struct, frozen=True):
    outcomes: tuple[type[f.AnyFact], ...]
    started: Started | None = None
    """Durable before the task starts."""
    subject: str = ""
    """The field of the intent that tells apart tasks of this kind at one position."""


FAMILIES: Mapping[TaskKind, Family] = {
    "prepare": Family((f.IterationStarted, f.ErrorOccurred)),
    "agent": Family(
        (f.IterationCompleted, f.ErrorOccurred, f.AttemptLost, f.AttemptCancelled),
        f.AttemptStarted,
    ),
    "judge": Family((f.JudgeCompleted, f.JudgeLost), f.JudgeStarted),
    "queue": Family((f.QueueChecked, f.ErrorOccurred)),
    "manifest": Family((f.ManifestWritten,)),
    "hook": Family((f.HookCompleted, f.HookFailed, f.HookTimedOut, f.HookLost), f.HookStarted, "delivery"),
    "check": Family((f.CheckCompleted, f.CheckLost), f.CheckStarted, "check"),
}

STARTED: Mapping[type[f.AnyFact], TaskKind] = {
    family.started: kind for kind, family in FAMILIES.items() if family.started is not None
}
"""The kind of task by its intent."""
