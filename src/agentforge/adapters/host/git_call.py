"""Calls git for trees: a failure is the reason why there is no tree."""

from collections.abc import Mapping

from agentforge.adapters.host.tree_scan import TooMuch
from agentforge.ports.host import NoTree
from agentforge.system.git import git_program
from agentforge.system.programs import NoExit, ProgramResult, run

MAX_LISTING = 128 * 1024 * 1024


def call_git(
    root: str,
    environ: Mapping[str, str],
    *arguments: str,
    seconds: float,
    stdin: bytes = b"",
    max_output: int = MAX_LISTING,
) -> ProgramResult | NoTree:
    """Raises TooMuch at the time limit."""
    program = git_program(root, environ, *arguments, timeout=seconds, max_output=max_output, stdin=stdin)
    ended = run(program)
    if ended.reason is NoExit.MISSING:
        return NoTree("git is not installed")
    if ended.reason is NoExit.TIMED_OUT:
        raise TooMuch(f"git {arguments[0]} took longer than {seconds:g} s")
    if ended.code != 0 or ended.truncated:
        return NoTree(f"git {arguments[0]}: {ended.last_error or ended.problem or 'too much output'}")
    return ended
