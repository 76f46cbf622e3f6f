"""Hooks that are functions of the program that embeds the engine."""

from collections.abc import Awaitable, Callable, Mapping

from agentforge.model.hook import HookResult
from agentforge.model.task import HookTask

HookCalls = Mapping[str, Callable[[HookTask], Awaitable[HookResult]]]
"""The functions of one run, by the id of the hook. What one raises is the failure of the hook."""
