"""Prints a change: coloured and harmless on a terminal, exact for programs such as `git apply`."""

from agentforge.cli.output import echo, echo_exact, is_terminal, styled

TONES: tuple[tuple[str, str], ...] = (
    *((header, "strong") for header in ("diff --git ", "index ", "old mode", "new mode", "+++", "---")),
    *((header, "strong") for header in ("new file", "deleted file", "similarity", "rename ")),
    *(("+", "good"), ("-", "bad"), ("@@", "busy")),
)
TAB = 8


def echo_patch(patch: bytes) -> None:
    if not is_terminal():
        echo_exact(patch)
        return
    for line in patch.decode("utf-8", "replace").removesuffix("\n").split("\n"):
        echo(styled(line.expandtabs(TAB), _tone(line)))


def _tone(line: str) -> str:
    return next((tone for prefix, tone in TONES if line.startswith(prefix)), "plain")
