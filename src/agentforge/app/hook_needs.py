"""What the hooks and notifications of a pipeline need here: programs, scripts and environment variables."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from agentforge.adapters.cli_agents.program import find_program
from agentforge.model.hook import Notification
from agentforge.model.plan import Plan
from agentforge.system import files
from agentforge.system.tools import find_tool

SHELL_WORDS = frozenset(
    {
        *("if", "for", "while", "until", "case", "{", "(", "!", "[", "[[", "test", ":", "."),
        *("cd", "echo", "printf", "set", "unset", "export", "exec", "eval", "exit", "read", "trap", "true"),
        *("false", "umask", "ulimit", "command", "wait", "shift", "return"),
    }
)
"""Words that the shell itself understands."""
INTERPRETERS = frozenset({"sh", "bash", "dash", "zsh", "python", "python3", "node", "ruby", "perl"})
"""Programs whose first argument is a file to run, unless it is an option."""


OUTSIDE = "use an absolute path; `in_project: true` runs the command of a pipeline in the project"


class HookNeed(Struct, frozen=True):
    """Something that a hook or a notification needs."""

    owner: str
    """`hook 'review'`"""
    found: str
    fix: str = ""
    """Empty if it is there."""


def hook_warnings(plan: Plan, environ: Mapping[str, str], project: str) -> tuple[str, ...]:
    """What is missing, and will fail when it is the hook's turn."""
    needs = hook_needs(plan, environ, project)
    return tuple(f"{need.owner}: {need.found}" for need in needs if need.fix)


def hook_needs(plan: Plan, environ: Mapping[str, str], project: str) -> Iterator[HookNeed]:
    for hook in plan.all_hooks:
        owner = f"hook {hook.id!r}"
        if hook.script is not None:
            yield _program(owner, hook.script, environ, project)
        if hook.secret is not None:
            yield _variable(owner, hook.secret, "the webhook will fail, because it can't be signed", environ)
        for name in hook.environment:
            yield _variable(owner, name, "the script runs without it", environ)
    for notification in plan.pipeline.notify:
        yield from notification_needs(notification, environ, project)


def notification_needs(one: Notification, environ: Mapping[str, str], project: str) -> Iterator[HookNeed]:
    owner = "notification"
    if one.command is not None:
        yield _program(owner, one.command, environ, project if one.in_project else "")
        for name in one.environment:
            yield _variable(owner, name, "the command runs without it", environ)
    if one.secret is not None:
        yield _variable(owner, one.secret, "it will not be sent, because it can't be signed", environ)
    if one.desktop:
        tool = find_tool("osascript", environ, project) or find_tool("notify-send", environ, project)
        fix = "" if tool else "sudo apt-get install libnotify-bin"
        yield HookNeed(owner, tool or "notify-send was not found: desktop notifications are off", fix)


def _variable(owner: str, name: str, otherwise: str, environ: Mapping[str, str]) -> HookNeed:
    if environ.get(name):
        return HookNeed(owner, f"{name} is set")
    return HookNeed(owner, f"{name} is not set: {otherwise}", f"set {name}")


def _program(owner: str, line: str, environ: Mapping[str, str], folder: str) -> HookNeed:
    """`folder`: where the line runs; empty: outside of the project."""
    words = _words(line)
    if not words or words[0] in SHELL_WORDS or "$" in words[0]:
        return HookNeed(owner, "runs in sh")
    program, *rest = words
    place = find_program(program, folder or "/", environ)
    if place is None:
        create = f"create {program}, or make it executable" if folder else OUTSIDE
        fix = create if "/" in program else f"install {program}, or correct the command"
        return HookNeed(owner, f"{program} was not found or is not executable", fix)
    script = rest[0] if rest and os.path.basename(program) in INTERPRETERS else ""
    if (
        script
        and not script.startswith("-")
        and "$" not in script
        and not files.is_file(os.path.join(folder or "/", script))
    ):
        found = f"{script} is not a file" + (" of the project" if folder else "")
        return HookNeed(owner, found, f"create {script}" if folder else OUTSIDE)
    return HookNeed(owner, place)


def _words(line: str) -> Sequence[str]:
    """The words of the first command, without the variables that it sets."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return ()
    while words and "=" in words[0] and words[0].partition("=")[0].isidentifier():
        del words[0]
    return words
