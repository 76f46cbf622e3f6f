"""The keys of notifications."""

from agentforge.definition.read.external_values import ADDRESS, COMMAND, SECRET
from agentforge.definition.read.table import Entries, Key, Nested, Table
from agentforge.definition.read.values import FLAG, ListOf, Required, Text
from agentforge.definition.specs import Written
from agentforge.model.hook import OCCASIONS, Notification
from agentforge.model.plan_limits import MAX_NOTIFICATIONS


def _notification(entries: Entries) -> Written[Notification]:
    get, report = entries.get, entries.report
    desktop, command = get("desktop"), get("command")
    if desktop and not desktop.value and command is None and get("url") is None:
        _WAYS.report_missing(entries.at, report)
    if "secret" in entries.values and entries.tree("url") is None:
        at = entries.written["secret"].key.at
        report.warning("no-effect", at, "`secret` has no effect without `url`", "remove it, or add `url`")
    found = Notification(
        on=tuple(dict.fromkeys(occasion.value for occasion in get("on", ()))) or OCCASIONS,
        desktop=bool(desktop and desktop.value),
        command=command,
        url=get("url"),
        secret=get("secret"),
    )
    return Written(found, entries.at)


_WAYS = Required(
    ("desktop", "command", "url"),
    "the notification has no receiver",
    "add `desktop: true`, `command: …` or `url: …`",
)
_OCCASIONS = Required(("on",), "`on` is an empty list", f"name some of {', '.join(OCCASIONS)}, or omit it")
NOTIFICATION = Table(
    "notification",
    (
        Key(
            "on",
            ListOf(Text(OCCASIONS), or_one=True, required=_OCCASIONS),
            "When: a run needs a person, failed, completed or was cancelled; by default all of these.",
        ),
        Key("desktop", FLAG, "Show a notification on the desktop."),
        Key("command", COMMAND, "Run a shell command."),
        Key("url", ADDRESS, "Send a POST to this address."),
        Key("secret", SECRET, "The environment variable with the secret that signs the POST."),
    ),
    _notification,
    name="notification",
    required=(_WAYS,),
)
NOTIFY_KEY = Key(
    "notify",
    ListOf(Nested(NOTIFICATION), or_one=True, longest=MAX_NOTIFICATIONS),
    "How someone is told that a run needs a person, failed, completed or was cancelled.",
)
