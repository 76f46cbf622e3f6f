"""Bugs in hooks that are functions of a program, and in notifications."""

from tests.mutants.mutation import Mutation as Bug

HOOKS = "agentforge.app.hooks"
NOTIFICATIONS = "agentforge.app.notifications"
NOTIFIER = "agentforge.runtime.notifier"
RUNNER = "agentforge.app.runs.runner"

CALLS = ("tests/sdk/test_hooks.py",)
MISSING = ("tests/sdk/test_missing_hooks.py",)
SENT = ("tests/runtime/test_notifier.py", "tests/sdk/test_notifications.py")

BUGS = (
    Bug(
        NOTIFIER,
        "a notice is sent before its event is durable",
        "Notifier._send_durable",
        "seq > synced or (not is_last and self._is_left_to_hooks(notice))",
        "not is_last and self._is_left_to_hooks(notice)",
        SENT,
    ),
    Bug(
        NOTIFIER,
        "a person is notified although a hook answers the request",
        "Notifier._send_durable",
        "not is_last and self._is_left_to_hooks(notice)",
        "False",
        SENT,
    ),
    Bug(
        NOTIFIER,
        "occasions aren't told apart",
        "Notifier._send_durable",
        "notice.event in channel.on",
        "True",
        SENT,
    ),
    Bug(NOTIFICATIONS, "a command that fails counts as sent", "_run", "done.code != 0", "False", SENT),
    Bug(
        RUNNER,
        "a replay notifies",
        "_drive",
        "() if is_replay else receivers",
        "receivers",
        SENT,
    ),
    Bug(
        RUNNER,
        "a run continues without its hooks",
        "make_ready",
        "refuse_missing_parts(context, plan, settings)",
        "pass",
        MISSING,
    ),
    Bug(
        HOOKS,
        "hooks of all stages are pinned",
        "HookRegistry.pinned",
        "hook.stage is None or hook.stage in ids",
        "hook.stage is None",
        CALLS,
    ),
    Bug(HOOKS, "a hook can cancel the engine", "_awaited", "task.cancelled()", "False", CALLS),
)
