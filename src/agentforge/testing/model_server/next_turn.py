"""Chooses the turn that answers a request, from the conversation alone, and converts its actions to calls of
the tools that the client offers."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from agentforge.testing.model_server.script import Action, Call, Script, Shell, Turn, Write
from agentforge.testing.model_server.wire import JSON, ModelConversation, Tool

MARKER = re.compile(r"\[(\w+)=([^\]\s]+)\]")
LEFT = re.compile(r"(?<![\w.])(/[^\s\"'`<>\[\]()]*/(result|artifact)\.json)")


def step(script: Script, conversation: ModelConversation) -> int:
    """The number of turns with actions since the last turn without."""
    endings = {turn.text.strip() for turn in script.every_turn if not turn.actions}
    number = 0
    for reply in conversation.replies:
        if reply.calls:
            number += 1
        elif reply.text.strip() in endings:
            number = 0
        # Anything else is part of a cut response, or the client's note about a failure.
    return number


def turns(script: Script, conversation: ModelConversation) -> tuple[Turn, ...]:
    for prompt in reversed(conversation.prompts):
        for rule in script.rules:
            if re.search(rule.matches, prompt):
                return rule.turns
    return script.turns


def next_turn(script: Script, conversation: ModelConversation) -> Turn:
    found = turns(script, conversation) or (Turn("Nothing to do."),)
    return found[min(step(script, conversation), len(found) - 1)]


def is_side(script: Script, conversation: ModelConversation) -> bool:
    return script.acts and not conversation.tools


def values(script: Script, conversation: ModelConversation) -> dict[str, str]:
    """The values of names in actions, from the prompts; the latest counts."""
    found = dict(script.values)
    for prompt in conversation.prompts:
        found |= {name: path for path, name in LEFT.findall(prompt)}
        found |= dict(MARKER.findall(prompt))
    return found


# The tool names of Claude Code, Codex, OpenCode, Gemini and the `api` provider.
WRITE_TOOLS = ("Write", "write", "write_file")
SHELL_TOOLS = ("Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command", "run_command")
PATHS = ("file_path", "filePath", "path")
COMMANDS = ("command", "cmd")

Bound = tuple[str, JSON | str]
"""A tool's name and its arguments, or plain text for a tool without arguments."""


class NoTool(LookupError):
    """The client offers no tool for the action."""


def bind(action: Action, tools: Mapping[str, Tool], values: Mapping[str, str]) -> Bound:
    match action:
        case Call(name, arguments):
            return name, _fill(arguments, values)
        case Write(path, content):
            return _write(_fill(path, values), _fill(content, values), tools)
        case Shell(command):
            return _shell(_fill(command, values), tools)


def _write(path: str, content: str, tools: Mapping[str, Tool]) -> Bound:
    for tool in _offered(WRITE_TOOLS, tools):
        return tool.name, {_argument(PATHS, tool): path, "content": content}
    if "apply_patch" in tools:
        return _patch(path, content, tools["apply_patch"])
    return _shell(f"printf %s {shlex.quote(content)} > {shlex.quote(path)}", tools)


def _patch(path: str, content: str, tool: Tool) -> Bound:
    added = "".join(f"+{line}\n" for line in content.splitlines())
    patch = f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n"
    return tool.name, patch if tool.is_freeform else {next(iter(tool.properties)): patch}


def _shell(command: str, tools: Mapping[str, Tool]) -> Bound:
    for tool in _offered(SHELL_TOOLS, tools):
        name = _argument(COMMANDS, tool)
        wants_list = (tool.properties[name] or {}).get("type") == "array"
        arguments: JSON = {name: ["bash", "-c", command] if wants_list else command}
        if "description" in tool.properties:
            arguments["description"] = "Runs a command"
        return tool.name, arguments
    if "exec" in tools and tools["exec"].is_freeform:
        # Codex's code mode: a program that calls the tools.
        return "exec", f"text(JSON.stringify(await tools.exec_command({{cmd: {json.dumps(command)}}})));"
    raise NoTool(f"no tool to run a shell command among {', '.join(sorted(tools)) or 'none'}")


def _offered(names: tuple[str, ...], tools: Mapping[str, Tool]) -> list[Tool]:
    return [tools[name] for name in names if name in tools and not tools[name].is_freeform]


def _argument(names: tuple[str, ...], tool: Tool) -> str:
    for name in names:
        if name in tool.properties:
            return name
    raise NoTool(f"tool {tool.name!r} takes none of {', '.join(names)}")


def _fill(node: Any, values: Mapping[str, str]) -> Any:
    match node:
        case str():
            for name, value in values.items():
                node = node.replace(f"{{{name}}}", value)
            return node
        case list():
            return [_fill(one, values) for one in node]
        case dict():
            return {key: _fill(one, values) for key, one in node.items()}
    return node
