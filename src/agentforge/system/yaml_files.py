"""YAML files of plain data below `.agentforge`, which people and agents may edit: artifacts and states."""

import os
from typing import Any

import msgspec
import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent, NodeEvent

from agentforge.model.errors import InvalidRequest, UnusableFile
from agentforge.system import files
from agentforge.system.schemas import MAX_DEPTH, depth_of

# PyYAML constructs values by native recursion: a file of brackets ends the process. And it shares what
# aliases refer to, so that a small file becomes a value that takes for ever to copy. Our files have neither,
# so the events of a file, which take a third of the time, are looked at before values are made of them.

MAX_LEVELS = 2 * MAX_DEPTH
_FOLDER = "/.agentforge/"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):  # type: ignore[misc]
    """Writes text of several lines as a block, which people can read."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def plain_data(value: Any) -> Any:
    """A copy of the value as JSON has it: lists for tuples, text for keys, times, paths and other objects,
    None for what is not a number. Raises InvalidRequest if it is nested too deeply."""
    copied = msgspec.json.decode(json_bytes(value))
    if depth_of(copied) > MAX_DEPTH:
        raise _too_deep()
    return copied


def json_bytes(value: Any) -> bytes:
    """What `plain_data` copies, as JSON."""
    if depth_of(value) > MAX_DEPTH:
        raise _too_deep()
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(msgspec.to_builtins(value, str_keys=True, enc_hook=str)))
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> InvalidRequest:
    return InvalidRequest(
        f"the data is nested deeper than {MAX_DEPTH} levels", hint="remove references to itself"
    )


def _encodable(value: Any) -> Any:
    """With question marks for bytes that aren't UTF-8."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_encodable(key): _encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_encodable(item) for item in value]
        case _:
            return value


def yaml_bytes(data: Any) -> bytes:
    """Plain data as YAML."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text.encode()


def parse_yaml(content: bytes) -> Any:
    """The content as plain data. Raises ValueError if it isn't YAML, or has what our files never have: tags,
    aliases, a great depth."""
    depth = 0
    try:
        for event in yaml.parse(content, Loader=_LOADER):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            unusual = isinstance(event, NodeEvent) and (event.anchor or getattr(event, "tag", None))
            if unusual or depth > MAX_LEVELS:
                raise ValueError("tags, aliases and very deep levels are not supported")
        return plain_data(yaml.load(content, Loader=_LOADER))  # noqa: S506 - a safe loader.
    except (yaml.YAMLError, OverflowError, InvalidRequest) as error:
        raise ValueError(" ".join(str(error).split())) from error


def write_yaml(path: str | os.PathLike[str], value: Any) -> str:
    """Write the value as plain data, atomically; creates the folder if it is missing, and returns the path
    that was written. No link below `.agentforge` is followed."""
    target = settled_path(path)
    files.make_dir(os.path.dirname(target), 0o777)
    files.replace(target, yaml_bytes(plain_data(value)))
    return target


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """The content of a file, or None if it is missing. Raises UnusableFile if it isn't a YAML file."""
    content = files.read_bytes(settled_path(path))
    try:
        return None if content is None else parse_yaml(content)
    except ValueError as error:
        raise UnusableFile(f"{os.fspath(path)} can't be read: {error}", hint="fix it or remove it") from error


def settled_path(path: str | os.PathLike[str]) -> str:
    """The absolute path with its links resolved, apart from those below `.agentforge`, where agents can put
    some: `files` refuses them."""
    project, mark, rest = os.path.abspath(path).rpartition(_FOLDER)
    if mark:
        return f"{os.path.realpath(project)}{mark}{rest}"
    folder, name = os.path.split(rest)
    return os.path.join(os.path.realpath(folder), name)
