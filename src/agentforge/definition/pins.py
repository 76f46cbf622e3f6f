"""Pins a plan to the files that it names: their text becomes part of the plan, so that a change during the
run has no effect until a person recompiles it."""

from posixpath import join, normpath
from typing import Any

import msgspec
from msgspec.structs import replace

from agentforge.definition.report import Report, absolute, relative
from agentforge.model.errors import NOT_JSON
from agentforge.model.layout import PROVIDERS
from agentforge.model.plan import Plan, ProviderChoice, SandboxChoice, StageNode
from agentforge.ports.sources import Sources

# Agents can write in the project during the run. Without the pins, one agent would decide what the next one
# is asked, also outside of its sandbox; what a sandbox mounts would follow a link that an earlier agent
# planted. So everything a run obeys is read once, when a person starts it, and the log has it. The judge's
# template is never read from the project: the judged would write it.

JUDGE_PROMPT_PATH = "JUDGE_PROMPT_PATH"
_SCHEMA = "schema"
"""The setting of a provider that may name a file with a JSON Schema."""


def pin(plan: Plan, sources: Sources, report: Report) -> Plan:
    judges = plan.judges()
    described = ((name, _description(name, sources)) for name in sorted({*plan.providers(), *judges}))
    return replace(
        plan.with_stages(_Pins(sources).stage),
        judge_prompt=_judge_prompt(sources, report) if judges else "",
        descriptions={name: text for name, text in described if text is not None},
    )


class _Pins:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def stage(self, node: StageNode) -> StageNode:
        return replace(
            node,
            prompt=pinned_text(node.prompt_path, self._sources) if node.prompt_path else node.prompt,
            provider=self.choice(node.provider),
            fallbacks=tuple(self.choice(choice) for choice in node.fallbacks),
            sandbox=self._resolved(node.sandbox) if node.sandbox else None,
        )

    def choice(self, choice: ProviderChoice) -> ProviderChoice:
        named = choice.config.get(_SCHEMA)
        path, home = named if isinstance(named, str) else "", self._sources.environment.get("HOME", "")
        if path.startswith("~/") and home:
            path = join(home, path[2:])
        text = pinned_text(path, self._sources) if path else None
        if text is None:
            return choice
        try:
            schema = msgspec.json.decode(text, type=dict[str, Any])
        except NOT_JSON:
            return choice  # The provider reports it.
        place = relative(self._sources.project, absolute(self._sources.project, path))
        return replace(choice, config={**choice.config, _SCHEMA: schema}, schema_path=place)

    def _resolved(self, choice: SandboxChoice) -> SandboxChoice:
        """With where existing paths lead, but for those in the agent's home, which may differ from ours."""
        project = self._sources.resolve(self._sources.project) or self._sources.project
        named = (*choice.writable, *choice.hidden)
        outside = (path for path in named if path != "~" and not path.startswith("~/"))
        found = ((path, self._sources.resolve(absolute(self._sources.project, path))) for path in outside)
        resolved = tuple((path, relative(project, place)) for path, place in found if place is not None)
        return replace(choice, resolved=resolved)


def pinned_choice(choice: ProviderChoice, sources: Sources) -> ProviderChoice:
    return _Pins(sources).choice(choice)


def pinned_text(path: str, sources: Sources) -> str | None:
    """The text of a file as a plan contains it; the path is relative to the project."""
    text = sources.read(absolute(sources.project, path))
    return None if text is None else _encodable(text)


def _description(name: str, sources: Sources) -> str | None:
    texts = (pinned_text(join(PROVIDERS, f"{name}{suffix}"), sources) for suffix in (".yml", ".yaml"))
    return next((text for text in texts if text is not None), None) if "/" not in name else None


def _encodable(text: str) -> str:
    """Bytes that aren't UTF-8, which sources represent as surrogates, are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _judge_prompt(sources: Sources, report: Report) -> str:
    """The user's own template, else the built-in one; none of the project, which agents can write."""
    home = sources.environment.get("HOME", "")
    named = sources.environment.get(JUDGE_PROMPT_PATH, "")
    if named:
        text = sources.read(absolute(sources.project, named))
        if text is None:
            at = report.variable(JUDGE_PROMPT_PATH, named)
            message = f"{JUDGE_PROMPT_PATH} must name a readable file, got `{named}`"
            report.error("missing-file", at, message, "correct the path, or unset the variable")
        return _encodable(text or "")
    places = (
        join(home, ".config", "agent-pipelines", "prompts", "judge.md") if home else "",
        normpath(join(sources.builtin, "prompts", "judge.md")),
    )
    texts = (sources.read(path) for path in places if path)
    return next((_encodable(text) for text in texts if text is not None), "")
