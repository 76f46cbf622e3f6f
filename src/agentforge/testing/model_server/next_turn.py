"""Chooses the turn that answers a request, from the conversation alone."""

import re

from agentforge.testing.model_server.script import Script, Turn
from agentforge.testing.model_server.wire import ModelConversation

MARKER = re.compile(r"\[(\w+)=([^\]\s]+)\]")
RESULT = re.compile(r"(?<![\w.])(/[^\s\"'`<>\[\]()]*/result\.json)")


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
        if paths := RESULT.findall(prompt):
            found["result"] = paths[-1]
        found |= dict(MARKER.findall(prompt))
    return found
