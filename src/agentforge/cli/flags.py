"""Flags that stand before the command: agent-pipelines takes its own anywhere in the line."""

from collections.abc import Callable, Sequence

PLAIN = frozenset({"--force", "--resume", "--recompile", "--record", "--foreground", "--no-tmux", "--tmux"})
VALUED = frozenset({"--provider", "--model", "--provider-config", "--context", "--input", "-i", "--command"})
OURS = frozenset({"-C", "--project", "--log-level", "--log-format"})
"""Options of the program itself that take a value; they may stay where they are."""


def behind_command(arguments: Sequence[str], is_command: Callable[[str], bool]) -> list[str]:
    """The line with agent-pipelines' flags behind its first word.

    `--resume SESSION`, without a command, is how a paused run is gone on with.
    """
    kept: list[str] = []
    moved: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        name, equals, _ = rest[0].partition("=")
        taken = 1 if equals or name not in VALUED | OURS else 2
        (moved if name in PLAIN | VALUED else kept).extend(rest[:taken])
        rest = rest[taken:]
    if not moved or not rest:
        return list(arguments)
    if "--resume" in moved and not is_command(rest[0]):
        return [*kept, "resume", *(flag for flag in moved if flag != "--resume"), *rest]
    return [*kept, rest[0], *moved, *rest[1:]]
