"""The keys of artifacts, and of the context that an iteration is given."""

from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.read.table import Key, MappingSpec, Nested, Table, by_key
from agentforge.definition.read.values import ListOf, Name, Number, Schema, Text, as_mapping
from agentforge.definition.report import Report
from agentforge.definition.yaml_tree import Keyed, Scalar, Tree, Written, kind_of, shown
from agentforge.model.artifact import ArtifactRule, FillSource, ResultField, Strategy, is_of_engine
from agentforge.model.diagnostic import USER_PREFIX, is_misspelled
from agentforge.model.plan import TokenBudget
from agentforge.model.plan_limits import (
    FIELD_PATTERN,
    MAX_FIELDS,
    MAX_HEAL,
    MAX_TOKENS,
    VERSION_PATTERN,
    is_field_name,
)

# `1.10` is another version than `1.1`, though it is the same number.
_VERSION = Name(VERSION_PATTERN, "MAJOR.MINOR", "for example `version: 1.0`")


class FieldName(Struct, frozen=True):
    """The name of a field of an artifact."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[str] | None:
        text = Text().read(tree, name, report)
        if text and not is_field_name(text.value):
            hint = "a field is at the top of the artifact: one name, without dots and spaces"
            report.error("bad-value", text.at, f"{name} must name a field, got {shown(text.value)}", hint)
            return None
        return text

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": ["string", "number", "boolean"], "pattern": f"^{FIELD_PATTERN}$"}


class Fill(Struct, frozen=True):
    """A mapping from fields to what the engine sets them to."""

    def read(self, tree: Tree, name: str, report: Report) -> dict[str, Written[str]] | None:
        keyed = as_mapping(tree, name, report, "for example `fill: {goal: request}`")
        found: dict[str, Written[str]] = {}
        if keyed and len(keyed.entries) > MAX_FIELDS:
            message = f"{name} has {len(keyed.entries)} fields; the maximum is {MAX_FIELDS}"
            report.error("too-large", tree.at, message, "fill fewer fields")
            return None
        for entry in keyed.entries if keyed else ():
            field = FieldName().read(entry.key, f"a key of {name}", report)
            if field and is_of_engine(field.value):
                message = f"{name} can't set {shown(field.value)}: the engine sets it in every artifact"
                report.error("bad-value", field.at, message, "leave it out")
            source = _SOURCE.read(entry.value, f"`{name.strip('`')}.{entry.key.text}`", report)
            if field and source:
                found[field.value] = Written(source.value, field.at)
        return found if keyed else None

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": "object", "additionalProperties": _SOURCE.schema(definitions)}


_SOURCE = Text(get_args(FillSource))


def is_schema(tree: Tree) -> bool:
    """Whether it can be the value of `schema`."""
    return isinstance(tree, Keyed) or (isinstance(tree, Scalar) and isinstance(tree.value, str))


class SchemaKind(Struct, frozen=True):
    """A schema as it is written: a name, a file or the schema itself. It is read when its folder is known."""

    def read(self, tree: Tree, name: str, report: Report) -> Tree:
        """What is none of these is returned, too: it is reported, and not missing."""
        if not is_schema(tree):
            message = f"{name} must be the name of a schema, a file or a mapping, got {kind_of(tree)}"
            report.error("bad-type", tree.at, message, "for example `work-plan`, or `schemas/plan.json`")
        return tree

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": ["string", "object"]}


ARTIFACT: Table[MappingSpec] = Table(
    "artifact",
    (
        Key("schema", SchemaKind(), "A built-in schema, a file beside the stage, or the schema.", field=None),
        Key("version", _VERSION, "MAJOR.MINOR of what the schema describes; 1.0 by default."),
        Key(
            "heal",
            Number(0, MAX_HEAL, "a whole number", whole=True),
            "How often an iteration may correct an invalid artifact; 1 by default.",
        ),
        Key(
            "fill",
            Fill(),
            "Fields that the engine sets for later stages: `request` is the user request, `id` a new id.",
            lower=lambda fill: {field: source.value for field, source in fill.items()},
        ),
        Key(
            "result",
            ListOf(Text(get_args(ResultField)), or_one=True),
            "Fields that count in place of those of the result, such as `verdict`.",
        ),
    ),
    plan=ArtifactRule,
    name="artifact",
    prefix="artifact.",
)
_LONG = frozenset(key.name for key in ARTIFACT.keys)


class ArtifactKind(Struct, frozen=True):
    """What an iteration leaves: the mapping above, or a schema."""

    table: Table[MappingSpec] = ARTIFACT

    def read(self, tree: Tree, name: str, report: Report) -> MappingSpec | None:
        if isinstance(tree, Keyed):
            names = {entry.key.text for entry in tree.entries if not entry.key.text.startswith(USER_PREFIX)}
            slips = [one for one in names - _LONG if is_misspelled(one, _LONG)] if "schema" in names else []
            if slips or names <= _LONG:
                return self.table.read(tree, report)
            for entry in tree.entries:
                if entry.key.text in _LONG:
                    message = f"`{entry.key.text}` has no effect in a schema, which the mapping is here"
                    hint = f"write `artifact: {{schema: {{…}}, {entry.key.text}: …}}`"
                    report.warning("ignored-key", entry.key.at, message, hint)
        schema = self.table.kind_of_key("schema").read(tree, name, report)
        return self.table.read_short("schema", schema, tree.at, report)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"anyOf": [{"type": "string"}, self.table.schema(definitions), {"type": "object"}]}


class Percent(Struct, frozen=True):
    """`30%` or 30."""

    number: Number

    def read(self, tree: Tree, name: str, report: Report) -> Written[float] | None:
        if isinstance(tree, Scalar) and isinstance(tree.value, str) and tree.text.endswith("%"):
            tree = replace(tree, value=tree.text[:-1])
        return self.number.read(tree, name, report)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        number = self.number.schema(definitions)
        return {**number, "pattern": f"{number['pattern'].removesuffix('$')}%?$"}


_SHARE = "a percentage, such as 30%,"
TOKENS: Table[MappingSpec] = Table(
    "tokens",
    (
        Key(
            "total",
            Number(1, MAX_TOKENS, "a whole number", whole=True),
            "How many tokens an iteration may be given.",
        ),
        Key("reserve", Percent(Number(0, 99, _SHARE)), "Percent of the total that stay free; 10 by default."),
        Key(
            "share",
            Percent(Number(0, 100, _SHARE, above_low=True)),
            "Percent of the rest that are for this stage; 100 by default.",
        ),
    ),
    plan=TokenBudget,
    name="tokens",
    prefix="tokens.",
)

OTHER_NAMES_OF_ARTIFACTS = {
    **dict.fromkeys(("schema", "output_schema"), "write `artifact: {schema: …}`"),
    **dict.fromkeys(("token_budget", "max_tokens"), "write `tokens: {total: …}`"),
}
"""What other tools call the keys below, with the hint what to write instead."""


def artifacts_elsewhere(hint: str) -> dict[str, str]:
    """The keys below, where they are not possible."""
    return {key.name: hint for key in ARTIFACT_KEYS}


ARTIFACT_KEYS = (
    Key("artifact", ArtifactKind(), "The JSON object that each iteration leaves.", field=None, merge=by_key),
    Key(
        "context_strategy",
        Text(get_args(Strategy)),
        "What `${BRIEFING}` tells in the prompt.",
        shown="Briefing: {}",
    ),
    Key("tokens", Nested(TOKENS, short="total"), "The budget of the context.", merge=by_key),
)
