"""Whether data fits a JSON Schema: pydantic-ai only shows a schema to the model and takes what comes."""

from typing import Any

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

MOST = 10


class NotASchema(ValueError):
    pass


def checker(schema: dict[str, Any]) -> Validator:
    """Raises NotASchema. References are followed within the schema only, never over the network."""
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise NotASchema(f"at {error.json_path}: {error.message}") from error
    registry: Registry[Any] = Registry()
    return kind(schema, registry=registry)


def misfits(check: Validator, data: Any) -> list[str]:
    """What is wrong with the data, where; empty if it fits."""
    try:
        errors = sorted(check.iter_errors(data), key=lambda error: error.json_path)
    except Unresolvable as error:
        return [f"the schema refers to something that isn't there: {error}"]
    found = [f"{error.json_path}: {error.message[:300]}" for error in errors[:MOST]]
    return found + ([f"and {len(errors) - MOST} more"] if len(errors) > MOST else [])
