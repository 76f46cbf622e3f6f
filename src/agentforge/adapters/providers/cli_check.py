"""What is wrong with the description of a CLI, beyond the kinds of its values."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from agentforge.adapters.providers.agent_cli import AgentCli
from agentforge.adapters.providers.command_line import PLACEHOLDER
from agentforge.adapters.providers.readers import FORMATS, JSON_LINES
from agentforge.model.errors import ProviderUnusable

TEMPLATES = {
    "prompt_arguments": {"prompt"},
    "model_arguments": {"model"},
    "effort_arguments": {"effort"},
    "resume_arguments": {"session"},
    "retry_arguments": {"retries", "model_provider"},
}
"""Which placeholders have a value where."""


class Problem(NamedTuple):
    key: str
    message: str
    hint: str


def check_cli(cli: AgentCli) -> None:
    """Raises ProviderUnusable for the first thing that is wrong."""
    for problem in problems(cli):
        raise ProviderUnusable(f"provider {cli.name}: {problem.message}", hint=problem.hint)


def problems(cli: AgentCli) -> Iterator[Problem]:
    if cli.output not in FORMATS:
        hint = f"use one of {', '.join(FORMATS)}"
        yield Problem("output", f"nobody reads the output format {cli.output!r}", hint)
    if cli.fields != type(cli.fields)() and cli.output != JSON_LINES:
        yield Problem(
            "fields", f"`fields` are those of JSON lines, not of {cli.output!r}", "add `output: json_lines`"
        )
    if cli.retries is not None and cli.retries < 0:
        yield Problem("retries", f"`retries` can't be {cli.retries}", "give 0 or more")
    if cli.efforts and not cli.effort_arguments:
        hint = "such as `effort_arguments: [--effort, '{effort}']`"
        yield Problem("efforts", "there are `efforts`, but no `effort_arguments` to say them with", hint)
    yield from _placeholders(cli)
    yield from _patterns(cli)


def _placeholders(cli: AgentCli) -> Iterator[Problem]:
    for key, known in TEMPLATES.items():
        words = getattr(cli, key) or ()
        found = {name for word in words for name in PLACEHOLDER.findall(word)}
        if found - known:
            strange = ", ".join(f"{{{name}}}" for name in sorted(found - known))
            wanted = ", ".join(f"{{{name}}}" for name in sorted(known))
            yield Problem(key, f"`{key}` has {strange}, which has no value there", f"use {wanted}")
        needed = key != "prompt_arguments" or cli.prompt != "stdin"
        if words and needed and not found & known:
            wanted = " or ".join(f"{{{name}}}" for name in sorted(known))
            yield Problem(key, f"`{key}` has no {wanted}", "put it where the value belongs")


def _patterns(cli: AgentCli) -> Iterator[Problem]:
    for key in ("error_patterns", "lost_session_patterns", "failures"):
        for pattern in getattr(cli, key):
            try:
                re.compile(pattern)
            except re.error as error:
                yield Problem(key, f"`{key}` has no regular expression: {pattern!r}: {error}", "correct it")
