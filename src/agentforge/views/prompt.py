"""Prompt templates: replaced in a single pass, so that values are never expanded again."""

import re
from collections.abc import Mapping, Sequence

from agentforge.model.prompt_variables import VARIABLES

RESULT_INSTRUCTIONS = """
---

When you have finished, write your result as a JSON object to the file ${RESULT}, for example:

{"decision": "continue", "summary": "what you did, in a sentence or two", "reason": ""}

The decision is "continue" if another iteration would improve the work, "stop" if nothing is left to do, and
"error" if you cannot do the work. For "stop" and "error", give the reason.
"""
_PLACEHOLDER = re.compile(r"\$\{(" + "|".join(VARIABLES) + r")\}")
_ANY = re.compile(r"\$\{([A-Z_]+)\}")
_SESSION = re.compile(r"\$\{SESSION(?:_NAME)?\}")


def render(text: str, values: Mapping[str, str]) -> str:
    """Replace all known variables; missing values become empty, unknown variables are kept."""
    return _PLACEHOLDER.sub(lambda found: values.get(found.group(1), ""), text)


def asks_for_result(template: str) -> bool:
    return "${RESULT}" in template or "${STATUS}" in template


def with_result_instructions(template: str) -> str:
    """The template, extended if it doesn't ask for the result."""
    return template if asks_for_result(template) else f"{template.rstrip()}\n{RESULT_INSTRUCTIONS}"


def with_quotations(template: str, names: Sequence[str]) -> str:
    """The template, extended by the variables that it doesn't name: what people said is not left out."""
    missing = [f"${{{name}}}" for name in names if f"${{{name}}}" not in template]
    return template if not missing else "\n\n---\n\n".join((template.rstrip(), *missing))


def substitute_session(path: str, session: str) -> str:
    """Replace the session variable in an `output_path`."""
    return _SESSION.sub(lambda _: session, path)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace only the given variables, in a single pass."""
    return _ANY.sub(lambda found: values.get(found.group(1), found.group(0)), text)
