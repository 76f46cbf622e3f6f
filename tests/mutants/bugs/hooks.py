"""Bugs in hooks that are functions of a program, and in notifications."""

from tests.mutants.mutation import Mutation as Bug

CONTEXT = "agentforge.app.hook_context"
HOOKS = "agentforge.app.hooks"
NOTIFICATIONS = "agentforge.app.notifications"
NOTIFIER = "agentforge.runtime.notifier"
RUNNER = "agentforge.app.runs.runner"

CALLS = ("tests/sdk/test_hooks.py",)
MISSING = ("tests/sdk/test_missing_hooks.py",)
SENT = ("tests/runtime/test_notifier.py", "tests/sdk/test_notifications.py")

BUGS = (
    Bug(NOTIFIER, "a notice is sent before its event is durable", "if seq > synced or", "if", SENT),
    Bug(
        NOTIFIER,
        "a person is notified although a hook answers the request",
        "(not is_last and self._is_left_to_hooks(notice))",
        "False",
        SENT,
    ),
    Bug(NOTIFIER, "occasions aren't told apart", "if notice.event in channel.on:", "if True:", SENT),
    Bug(NOTIFICATIONS, "a command that fails counts as sent", "if done.code != 0:", "if False:", SENT),
    Bug(RUNNER, "a replay notifies", "notified = () if is_replay else", "notified =", SENT),
    Bug(
        RUNNER, "a run continues without its hooks", "self.hooks.refuse_missing(plan, settings)", "", MISSING
    ),
    Bug(HOOKS, "hooks of all stages are pinned", " or hook.stage in ids]", "]", CALLS),
    Bug(HOOKS, "a hook can cancel the engine", "    if task.cancelled():\n", "    if False:\n", CALLS),
    Bug(
        CONTEXT,
        "results from before a restart are unknown",
        "if found is None and self._earlier is not None:",
        "if False:",
        CALLS,
    ),
)
