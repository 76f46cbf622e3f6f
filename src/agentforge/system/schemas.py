"""JSON Schemas: whether a schema is valid, and what of a value doesn't match it.

Both may come from a repository or an agent. So nothing outside of the schema is read, patterns are matched in
linear time, and what would take too long or too much stack is refused before jsonschema-rs sees it.
"""

# jsonschema-rs recurses natively: at a great depth of the value it ends the process. And it applies every
# alternative: `anyOf` of two references to the schema itself, one level below, doubles the work, and the
# memory for errors, with each level of the value. Python can't interrupt it. So the depth is bounded, and how
# often schemas are applied is estimated, from above, before a value is validated.
#
# It finds all mismatches before it returns the first, each with a copy of the part of the value and of the
# schema: of a large value that is wrong everywhere, they would need more memory than there is. Of such a
# value only the first one is looked for.

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from msgspec import Struct

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

MAX_DEPTH = 100
"""Of a schema, and of a value."""
MAX_APPLICATIONS = 5_000
"""Of schemas on the way from the root of a value to one of its leaves: they multiply with alternatives."""
MAX_WORK = 1_000_000
"""Such applications, for all parts of a value."""
MAX_COPIED = 500_000
"""Parts of a value times parts of the schema, for which all mismatches are looked for."""
PART_CHARS = 100
"""A longer text has several parts."""
MAX_PROBLEMS = 10
MAX_CHARS = 300
"""Of the text of one problem: it may quote the value."""

# The keywords that contain schemas, by what these are applied to.
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_ALL_CHILDREN = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "patternProperties"),
    *("additionalItems", "unevaluatedItems", "contains"),
)
_ONE_OF_CHILDREN = ("properties", "items", "prefixItems")
"""Of several, one is applied to a child."""
_DEFINITIONS = ("$defs", "definitions")
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", *_DEFINITIONS})
"""Those that contain schemas by names."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_LEAVES = (str, int, float, type(None))
"""Most values. A check for a mapping takes longer."""

Path = tuple[str | int, ...]


class InvalidSchema(ValueError):
    """The schema is not one that can be used."""

    def __init__(self, message: str, path: Path = ()) -> None:
        super().__init__(f"at {json_path(path)}: {message}")
        self.message = message
        self.path = path
        """Where in the schema."""


class Mismatch(Struct, frozen=True):
    message: str
    path: Path = ()
    """Where in the value."""

    @property
    def text(self) -> str:
        """`$.steps[0]: "id" is a required property`"""
        return f"{json_path(self.path)}: {self.message}"


def json_path(path: Iterable[str | int]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


class JsonSchema:
    def __init__(self, schema: Any) -> None:
        """Raises InvalidSchema."""
        if not isinstance(schema, Mapping):
            raise InvalidSchema(f"a schema must be a mapping, got {_kind(schema)}")
        if depth_of(schema) > MAX_DEPTH:
            raise InvalidSchema(f"the schema is nested deeper than {MAX_DEPTH} levels")
        self._applications = _Applications(schema)
        self._validator = _validator(schema)
        self._parts = _size(schema)[1]

    def mismatches(self, value: Any) -> list[Mismatch]:
        """What doesn't match, at most `MAX_PROBLEMS`; empty if all does."""
        depth = depth_of(value)
        if depth > MAX_DEPTH:
            return [Mismatch(f"it is nested deeper than {MAX_DEPTH} levels")]
        applied, (size, parts) = self._applications.most(depth), _size(value)
        if applied > MAX_APPLICATIONS or applied * size > MAX_WORK:
            return [Mismatch(_too_much(applied, size, depth))]
        try:
            if parts * self._parts > MAX_COPIED:
                return self._first_mismatch(value)
            found = list(islice(self._validator.iter_errors(value), MAX_PROBLEMS + 1))
        except ValueError as error:  # Text that isn't Unicode.
            return [Mismatch(str(error)[:MAX_CHARS])]
        shown = [_mismatch(one) for one in found[:MAX_PROBLEMS]]
        return shown if len(found) <= MAX_PROBLEMS else [*shown, Mismatch("and more")]

    def _first_mismatch(self, value: Any) -> list[Mismatch]:
        from jsonschema_rs import ValidationError

        try:
            self._validator.validate(value)
        except ValidationError as error:
            return [_mismatch(error), Mismatch("and perhaps more: the value is too large to look for all")]
        return []


def _too_much(applied: int, size: int, depth: int) -> str:
    if applied > MAX_APPLICATIONS:
        return f"the schema has too many alternatives for a value of {depth} levels"
    most = MAX_WORK // applied
    return f"it has {size:,} values; with this schema, at most {most:,} can be validated in the time for it"


def _mismatch(error: "ValidationError") -> Mismatch:
    return Mismatch(_shortened(error.message), tuple(error.instance_path))


def _shortened(message: str) -> str:
    """Most messages begin with the value, and say at their end what is wrong with it."""
    kept = MAX_CHARS // 2
    return message if len(message) <= MAX_CHARS else f"{message[:kept]} … {message[3 - kept :]}"


def _validator(schema: Mapping[str, Any]) -> "Validator":
    from jsonschema_rs import RegexOptions, ValidationError, validator_for  # Loading it takes time.

    try:
        return validator_for(dict(schema), pattern_options=RegexOptions(), offline=True)
    except ValidationError as error:
        raise InvalidSchema(_shortened(error.message), tuple(error.instance_path)) from None
    except ValueError as error:
        raise InvalidSchema(str(error)[:MAX_CHARS]) from None


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, _LEAVES):
        return ()
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def depth_of(value: Any) -> int:
    """The levels of a value, or one more than MAX_DEPTH."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        level = [child for one in level for child in _children(one)]
        depth += 1
    return depth


def _size(value: Any) -> tuple[int, int]:
    """The number of values in it, and of parts: a long text has several."""
    todo, size, chars = [value], 0, 0
    while todo:
        one = todo.pop()
        size += 1
        texts = (one,) if isinstance(one, str) else one if isinstance(one, dict) else ()
        chars += sum(len(text) for text in texts if isinstance(text, str))
        todo.extend(_children(one))
    return size, size + chars // PART_CHARS


def _schemas_in(schema: Mapping[str, Any], names: Iterable[str]) -> Iterator[tuple[Path, Any]]:
    """The schemas in these keywords, and where in the schema they are."""
    for name in names:
        inner = schema.get(name)
        if isinstance(inner, list):
            yield from (((name, number), one) for number, one in enumerate(inner))
        elif isinstance(inner, Mapping) and name in _BY_NAME:
            yield from (((name, key), one) for key, one in inner.items())
        elif inner is not None:
            yield (name,), inner


def _one_by_one(schema: Mapping[str, Any]) -> int:
    """What a value is compared with beside schemas: texts of an `enum` are looked up, all else is not."""
    values, needed = schema.get("enum"), schema.get("dependentRequired")
    compared = 0 if all(isinstance(one, str) for one in _children(values)) else len(values or ())
    return compared + (len(needed) if isinstance(needed, Mapping) else 0)


class _Applications:
    """How often the schemas of one are applied on the way from the root of a value to a leaf, at most."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises InvalidSchema."""
        self._root = schema
        self._anchors: dict[str, Any] = {}
        self._known: dict[tuple[int, int], int] = {}
        self._under_way: set[tuple[int, int]] = set()
        everywhere = (*_SAME_VALUE, *_ALL_CHILDREN, *_ONE_OF_CHILDREN, *_DEFINITIONS)
        todo: list[tuple[Path, Any]] = [((), schema)]
        found: list[tuple[Path, Mapping[str, Any]]] = []
        while todo:
            path, one = todo.pop()
            if isinstance(one, Mapping):
                found.append((path, one))
                todo.extend(((*path, *step), inner) for step, inner in _schemas_in(one, everywhere))
        for path, one in found:
            if path and "$id" in one:
                raise InvalidSchema("`$id` works only at the top of a schema", (*path, "$id"))
            self._anchors |= {one[key]: one for key in ("$anchor", "$dynamicAnchor") if key in one}
        for path, one in found:
            for key in _REFERENCES:
                if key in one and self._target(one[key]) is None:
                    problem = "nothing in the schema has this name: references are such as #/$defs/name"
                    raise InvalidSchema(f"{str(one[key])[:MAX_CHARS]!r}: {problem}", (*path, key))

    def most(self, depth: int) -> int:
        """Of a value with this number of levels."""
        try:
            return self._of(self._root, depth)
        except RecursionError:  # A chain of references.
            return MAX_APPLICATIONS + 1

    def _of(self, schema: Any, depth: int) -> int:
        key = (id(schema), depth)
        if not isinstance(schema, Mapping) or key in self._under_way:
            return 1
        if key not in self._known:
            self._under_way.add(key)
            targets = (self._target(schema[name]) for name in _REFERENCES if name in schema)
            found = 1 + _one_by_one(schema) + sum(self._of(one, depth) for one in targets)
            found += sum(self._of(one, depth) for _, one in _schemas_in(schema, _SAME_VALUE))
            if depth:
                found += sum(self._of(one, depth - 1) for _, one in _schemas_in(schema, _ALL_CHILDREN))
                for name in _ONE_OF_CHILDREN:
                    one_of = (self._of(one, depth - 1) for _, one in _schemas_in(schema, (name,)))
                    found += max(one_of, default=0)
            self._under_way.discard(key)
            self._known[key] = min(found, MAX_APPLICATIONS + 1)
        return self._known[key]

    def _target(self, reference: Any) -> Any:
        """What a reference leads to, or None."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        if not reference.startswith("#/"):
            return self._anchors.get(reference[1:]) if reference != "#" else self._root
        at: Any = self._root
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(at, list) and name.isdigit() and int(name) < len(at):
                at = at[int(name)]
            else:
                at = at.get(name) if isinstance(at, Mapping) else None
        return at
