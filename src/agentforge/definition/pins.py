"""Pins a plan to the files that it names: their text becomes part of the plan, so that a change during the
run has no effect until a person recompiles it."""

from collections.abc import Iterable
from posixpath import join, normpath
from typing import Any

import msgspec
from msgspec.structs import replace

from agentforge.definition.yaml.parser import absolute, relative
from agentforge.model.json_text import NOT_JSON
from agentforge.model.layout import PROVIDERS
from agentforge.model.plan import (
    NestedNode,
    Node,
    ParallelNode,
    Plan,
    ProviderChoice,
    SandboxChoice,
    StageNode,
)
from agentforge.ports.sources import Sources

JUDGE_PROMPT_PATH = "JUDGE_PROMPT_PATH"
_SCHEMA = "schema"
"""The setting of a provider that may name a file with a JSON Schema."""


def pin(plan: Plan, sources: Sources) -> Plan:
    pinned = _Pins(sources).plan(plan)
    judge = [plan.judge.type] if plan.uses_judge else []
    described = ((name, _description(name, sources)) for name in sorted({*plan.providers(), *judge}))
    return replace(
        pinned,
        judge_prompt=_judge_prompt(sources) if judge else "",
        descriptions={name: text for name, text in described if text is not None},
    )


class _Pins:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def plan(self, plan: Plan) -> Plan:
        return replace(plan, nodes=tuple(self._node(node) for node in plan.nodes))

    def _node(self, node: Node) -> Node:
        match node:
            case StageNode():
                return self._stage(node)
            case NestedNode():
                return replace(node, plan=self.plan(node.plan))
            case ParallelNode():  # exhaustive
                branches = (
                    replace(branch, stages=tuple(self._stage(stage) for stage in branch.stages))
                    for branch in node.branches
                )
                return replace(node, branches=tuple(branches))

    def _stage(self, node: StageNode) -> StageNode:
        return replace(
            node,
            prompt=pinned_text(node.prompt_path, self._sources) if node.prompt_path else node.prompt,
            provider=self._choice(node.provider),
            fallbacks=tuple(self._choice(choice) for choice in node.fallbacks),
            sandbox=self._sandbox(node.sandbox) if node.sandbox else None,
        )

    def _choice(self, choice: ProviderChoice) -> ProviderChoice:
        named = choice.config.get(_SCHEMA)
        text = pinned_text(named, self._sources) if isinstance(named, str) else None
        if text is None:
            return choice
        try:
            schema = msgspec.json.decode(text, type=dict[str, Any])
        except NOT_JSON:
            return choice  # The provider reports it.
        return replace(choice, config={**choice.config, _SCHEMA: schema})

    def _sandbox(self, choice: SandboxChoice) -> SandboxChoice:
        return replace(choice, resolved=self._resolved((*choice.writable, *choice.hidden)))

    def _resolved(self, paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Where existing paths lead; those of the agent's home, which may differ from ours, are left out."""
        project = self._sources.resolve(self._sources.project) or self._sources.project
        outside = (path for path in paths if path != "~" and not path.startswith("~/"))
        found = ((path, self._sources.resolve(absolute(self._sources.project, path))) for path in outside)
        return tuple((path, relative(project, place)) for path, place in found if place is not None)


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


def _judge_prompt(sources: Sources) -> str:
    """The user's own template, else the built-in one; none of the project, which agents can write."""
    home = sources.environment.get("HOME", "")
    named = sources.environment.get(JUDGE_PROMPT_PATH, "")
    places = (
        absolute(sources.project, named) if named else "",
        join(home, ".config", "agent-pipelines", "prompts", "judge.md") if home else "",
        normpath(join(sources.builtin, "prompts", "judge.md")),
    )
    texts = (sources.read(path) for path in places if path)
    return next((_encodable(text) for text in texts if text is not None), "")
