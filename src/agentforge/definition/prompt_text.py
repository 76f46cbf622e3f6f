"""Checks the text of prompts: variables that no run replaces."""

import re
from collections.abc import Iterator

from agentforge.definition.diagnostics import Report
from agentforge.definition.pins import pinned_text
from agentforge.definition.specs import ResolvedStage
from agentforge.definition.yaml.parser import relative
from agentforge.model.diagnostic import SourcePlace, choice
from agentforge.model.prompt_variables import VARIABLES
from agentforge.ports.sources import Sources

_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


def validate_prompt(node: ResolvedStage, sources: Sources, report: Report) -> None:
    """Warn about unknown variables: agents get them as they are written."""
    for name, at in _unknown(node, sources, report):
        message = f"unknown variable `${{{name}}}` in the prompt: the agent gets it as it is written"
        report.warning("unknown-variable", at, message, choice(name, "variables", VARIABLES))


def _unknown(node: ResolvedStage, sources: Sources, report: Report) -> Iterator[tuple[str, SourcePlace]]:
    if node.prompt_path is not None:
        file = relative(sources.project, node.prompt_path)
        text = pinned_text(file, sources) or ""
        report.add_text(file, text)
        for found in _variables(text):
            line_start = text.rfind("\n", 0, found.start()) + 1
            line = text.count("\n", 0, found.start()) + 1
            yield found[1], SourcePlace(file, line, found.start() - line_start + 1)
    elif node.spec.work.prompt is not None:
        for found in _variables(node.spec.work.prompt.value):
            yield found[1], node.spec.work.prompt.at


def _variables(text: str) -> Iterator[re.Match[str]]:
    return (found for found in _VARIABLE.finditer(text) if found[1] not in VARIABLES)
