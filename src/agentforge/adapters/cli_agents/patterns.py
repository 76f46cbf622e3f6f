"""The patterns of a CLI's description. A project may have written them, so a search has a deadline."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agentforge.adapters.cli_agents import pattern_search
from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.cli_agents.pattern_search import PatternMatches
from agentforge.model.failure import FailureKind
from agentforge.system.programs import Program, run

SECONDS = 5.0
"""For one search, including the start of its process on a busy machine."""
# Without a quantifier, a search takes linear time.
_QUANTIFIERS = re.compile(r"[*+?{]")


class PatternFailed(Exception):
    """The search didn't end in time."""


def own_kinds(cli: AgentCli, messages: Sequence[str]) -> list[FailureKind | None]:
    """The kinds of failure that the CLI's own patterns assign to error messages."""
    kinds = list(cli.failures.values())
    found = _search(cli, "failures", tuple(cli.failures), re.IGNORECASE, messages)
    return [kinds[first] if first >= 0 else None for first, _ in found]


def last_error(cli: AgentCli, output: str) -> int:
    """Where the last match of the error patterns begins, or -1."""
    return _search(cli, "error_patterns", cli.error_patterns, re.MULTILINE, [output])[0][1]


def is_session_lost(cli: AgentCli, message: str) -> bool:
    return _search(cli, "lost_session_patterns", cli.lost_session_patterns, 0, [message])[0][0] >= 0


def _search(
    cli: AgentCli, key: str, patterns: Sequence[str], flags: int, texts: Sequence[str]
) -> list[PatternMatches]:
    if not any(_QUANTIFIERS.search(pattern) for pattern in patterns):
        return pattern_search.search(patterns, flags, texts)
    request = json.dumps([patterns, int(flags), texts]).encode()
    argv = (sys.executable, "-I", "-S", str(Path(pattern_search.__file__)))
    ended = run(Program(argv, SECONDS, env={}, stdin=request))
    if ended.code != 0:
        why = ended.problem or ended.last_error or f"exit status {ended.status}"
        raise PatternFailed(
            f"provider {cli.name}: a pattern of `{key}` can't be searched: {why}; simplify it"
        )
    return msgspec.json.decode(ended.stdout, type=list[PatternMatches])
