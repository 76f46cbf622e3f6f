"""How an agent's run ended: determined by the last event of its stream, or by the exit status without one."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from agentforge.adapters.cli_agents import pattern_search
from agentforge.adapters.cli_agents.command_line import CliConfig, own_budget
from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.cli_agents.failures import failure_of
from agentforge.adapters.cli_agents.pattern_search import PatternMatches
from agentforge.adapters.cli_agents.program import exit_status
from agentforge.adapters.cli_agents.stream import (
    COLOUR,
    Reading,
    ReportedError,
    StreamReader,
    json_lines,
    one_line,
)
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import Usage
from agentforge.ports.provider import ExecuteResult, Exit
from agentforge.system.programs import Program, run

# How many lines from the end are searched for an error in plain text.
TAIL_LINES = 20
TAIL_CHARS = 64 * 1024
PATTERN_CHARS = 8 * 1024
"""How much of the end of stdout and of stderr is searched for the description's error patterns."""
PATTERN_SECONDS = 5.0
"""For one search, including the start of its process on a busy machine."""
# Without a quantifier, a search takes linear time.
_QUANTIFIERS = re.compile(r"[*+?{]")
MISSING_VARIABLE = re.compile(r"Missing environment variable: `(\w{1,100})`")
NOISE = re.compile(r"^\s*(at |\{|\}|$)|^warning\b", re.IGNORECASE)
ERROR = re.compile(r"^\W*(error|fatal|panic)", re.IGNORECASE)


class PatternFailed(Exception):
    """The search didn't end in time."""


def interpret_exit(
    cli: AgentCli, config: CliConfig, reader: StreamReader | None, exit: Exit
) -> ExecuteResult:
    try:
        return _at_cap(cli, config, exit, _interpreted(cli, reader, exit))
    except PatternFailed as error:
        failure = Failure(FailureKind.OUTPUT_UNREADABLE, str(error), exit.exit_code)
        return ExecuteResult(exit.output, exit_status(exit) or 1, exit.duration_ms, failure=failure)


def _at_cap(cli: AgentCli, config: CliConfig, exit: Exit, result: ExecuteResult) -> ExecuteResult:
    """A lower budget of the stage's own settings is a limit of the agent, as its turns are, not a cap."""
    failure, budget = result.failure, exit.budget.cost_usd if exit.budget else None
    if failure is None or failure.kind is not FailureKind.CAP_REACHED:
        return result
    own = own_budget(cli, config)
    if budget is not None and (own is None or budget <= own):
        return result
    return replace(result, failure=replace(failure, kind=FailureKind.AGENT_LIMIT))


def _interpreted(cli: AgentCli, reader: StreamReader | None, exit: Exit) -> ExecuteResult:
    events = [event for event in json_lines(exit.output) if reader.is_event(event)] if reader else []
    if reader is None or not events:
        return _by_exit_status(cli, exit)
    reading = reader.read(events, exit)
    failure = _with_login_hint(cli, _failure(cli, reading, exit))
    return ExecuteResult(
        output=reading.text,
        # The last event is more reliable than the status: some CLIs exit with 1 after success.
        exit_code=exit_status(exit) or 1 if failure else 0,
        duration_ms=exit.duration_ms,
        usage=_usage(cli, reading, failure),
        failure=failure,
        artifact=reading.artifact,
    )


def _failure(cli: AgentCli, reading: Reading, exit: Exit) -> Failure | None:
    error = reading.error or _by_pattern(cli, "\n".join(reading.texts), exit.errors)
    if not reading.finished and exit.truncated:
        # The last event is missing; only the exit status is known.
        return _crashed(cli, f"exited with status {exit_status(exit)}", exit) if exit_status(exit) else None
    if error is None and not reading.finished:
        how = f"the stream ended early, by signal {exit.signal}" if exit.signal else "the stream ended early"
        last = last_line(exit.errors)
        if not last:
            return _crashed(cli, how, exit)
        # What it printed last on stderr may be the reason.
        error = ReportedError(f"{how}; last error: {last}")
    if error is not None:
        return _known(cli, error, exit) or _crashed(cli, error.message, exit)
    if exit.exit_code is None:
        return _crashed(cli, f"ended by signal {exit.signal or 'unknown'}", exit)
    return None


def _known(cli: AgentCli, error: ReportedError, exit: Exit) -> Failure | None:
    return failure_of(error, exit, cli.shown_name, _own_kinds(cli, [error.message])[0])


def _by_exit_status(cli: AgentCli, exit: Exit) -> ExecuteResult:
    """The result of a program that prints plain text, or that died before its first event."""
    status = exit_status(exit)
    failure = None
    error = _by_pattern(cli, exit.output, exit.errors)
    if status or error:
        if error is None:
            # The last line near the end whose kind is known.
            lines = [one_line(line) for text in (exit.errors, exit.output) for line in _tail(text)]
            errors = zip(map(ReportedError, lines), _own_kinds(cli, lines), strict=True)
            known = (said for said, own in errors if failure_of(said, exit, cli.shown_name, own))
            error = next(known, None)
        last = error.message if error else last_line(exit.errors) or last_line(exit.output)
        failure = _known(cli, error, exit) if error else None
        failure = failure or Failure(
            FailureKind.PROVIDER_CRASHED,
            f"{cli.name} exited with status {status}: {last or 'no output'}",
            exit.exit_code,
        )
    return ExecuteResult(
        output=exit.output if exit.output.strip() else exit.errors,
        exit_code=status or (1 if failure else 0),
        duration_ms=exit.duration_ms,
        failure=_with_login_hint(cli, failure),
    )


def _with_login_hint(cli: AgentCli, failure: Failure | None) -> Failure | None:
    """Append login instructions to authentication failures."""
    if failure is None or failure.kind is not FailureKind.PROVIDER_AUTH or not cli.log_in:
        return failure
    key = f", or set {cli.keys[0]}" if cli.keys else ""
    if missing := MISSING_VARIABLE.search(failure.message):
        name = missing[1]
        fix = f"set {name} and pass it on with `pass_env: [{name}]` in the provider's config"
    else:
        fix = f"{cli.log_in}{key}"
    return replace(failure, message=f"{failure.message.rstrip('.')}; {fix}")


def _by_pattern(cli: AgentCli, texts: str, errors: str) -> ReportedError | None:
    """The last line that matches the description's error patterns, or None."""
    output = COLOUR.sub("", "\n".join(text[-PATTERN_CHARS:] for text in (texts, errors)))
    if not cli.error_patterns:
        return None
    # Where the last match begins, or -1.
    start = _search(cli, "error_patterns", cli.error_patterns, re.MULTILINE, [output])[0][1]
    return ReportedError(one_line(output[output.rfind("\n", 0, start) + 1 :])) if start >= 0 else None


def last_line(text: str) -> str:
    """The last line that is marked as an error, or else the last line."""
    lines = [line for line in _tail(text) if not NOISE.match(line)]
    found = next((line for line in lines if ERROR.match(line)), lines[0] if lines else "")
    return one_line(found)


def _tail(text: str) -> Sequence[str]:
    """The last lines, in reverse order."""
    lines = COLOUR.sub("", text[-TAIL_CHARS:]).splitlines()
    return [line for line in reversed(lines) if line.strip()][:TAIL_LINES]


def _crashed(cli: AgentCli, message: str, exit: Exit) -> Failure:
    return Failure(FailureKind.PROVIDER_CRASHED, f"{cli.shown_name}: {message}", exit.exit_code)


def _usage(cli: AgentCli, reading: Reading, failure: Failure | None) -> Usage | None:
    """The usage, without the session if it no longer exists."""
    usage = reading.usage
    if usage is None or failure is None:
        return usage
    if _search(cli, "lost_session_patterns", cli.lost_session_patterns, 0, [failure.message])[0][0] >= 0:
        usage = replace(usage, agent_session=None)
    if failure.kind is FailureKind.PROVIDER_AUTH and usage.input_tokens is usage.output_tokens is None:
        usage = replace(usage, input_tokens=0, output_tokens=0)  # No model answered.
    return usage


def _own_kinds(cli: AgentCli, messages: Sequence[str]) -> list[FailureKind | None]:
    """The kinds of failure that the CLI's own patterns assign to error messages."""
    kinds = list(cli.failures.values())
    found = _search(cli, "failures", tuple(cli.failures), re.IGNORECASE, messages)
    return [kinds[first] if first >= 0 else None for first, _ in found]


def _search(
    cli: AgentCli, key: str, patterns: Sequence[str], flags: int, texts: Sequence[str]
) -> list[PatternMatches]:
    """A project may have written the patterns, so a search has a deadline."""
    if not any(_QUANTIFIERS.search(pattern) for pattern in patterns):
        return pattern_search.search(patterns, flags, texts)
    request = json.dumps([patterns, int(flags), texts]).encode()
    argv = (sys.executable, "-I", "-S", str(Path(pattern_search.__file__)))
    ended = run(Program(argv, PATTERN_SECONDS, env={}, stdin=request))
    if ended.code != 0:
        why = ended.problem or ended.last_error or f"exit status {ended.status}"
        raise PatternFailed(
            f"provider {cli.name}: a pattern of `{key}` can't be searched: {why}; simplify it"
        )
    return msgspec.json.decode(ended.stdout, type=list[PatternMatches])
