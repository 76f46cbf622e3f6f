"""The keys of stages that deliver what a run changed."""

import re
from collections.abc import Sequence
from typing import get_args

from agentforge.definition.read.table import Entries, Key, MappingSpec, Nested, Table, by_key
from agentforge.definition.read.values import FLAG, Text
from agentforge.model.delivery import DeliverRule, DeliveryMode

MODES: tuple[DeliveryMode, ...] = get_args(DeliveryMode)
MAX_SUBJECT = 200
MAX_PREFIX = 60
_PREFIX = r"(\w[\w.-]*(?<!\.lock)(?<!\.)/)*(\w[\w.-]*)?"
"""What git accepts at the beginning of a branch's name."""


def _deliver(entries: Entries) -> MappingSpec:
    prefix = entries.get("branch_prefix")
    if prefix and not _is_prefix(prefix.value):
        message = "`deliver.branch_prefix` must be the beginning of a branch's name"
        entries.report.error("bad-value", prefix.at, message, "for example `feature/`")
    message_key = entries.get("message")
    if message_key and "\n" in message_key.value.strip():
        message = "`deliver.message` is the subject of the commit, on one line"
        entries.report.error("bad-value", message_key.at, message, "remove the line breaks")
    return entries.spec()


def _is_prefix(text: str) -> bool:
    return ".." not in text and re.fullmatch(_PREFIX, text, re.ASCII) is not None


DELIVER: Table[MappingSpec] = Table(
    "deliver",
    (
        Key("mode", Text(MODES), "A commit, nothing beyond the files, a patch, or a pull request."),
        Key("auto_commit", FLAG, "`commit`: `false` only stages the change."),
        Key("message", Text(prose=True, longest=MAX_SUBJECT, only_text=True), "The subject of the commit."),
        Key("branch_prefix", Text(longest=MAX_PREFIX), "`pr`: the beginning of the branch's name."),
        Key("run_hooks", FLAG, "Only `false`: hooks of the repository don't run.", field=None),
    ),
    _deliver,
    DeliverRule,
    name="deliver",
    prefix="deliver.",
    is_closed=True,
)


def _rule(spec: MappingSpec) -> DeliverRule:
    return DeliverRule(**spec.fields())


def _merged(values: Sequence[MappingSpec]) -> MappingSpec:
    merged: MappingSpec = by_key(values)
    return merged


DELIVER_KEY = Key(
    "deliver",
    Nested(DELIVER, short="mode"),
    "The engine delivers what the run changed; no agent runs in the stage.",
    merge=_merged,
    lower=_rule,
)
