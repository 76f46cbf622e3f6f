"""Changes one key in the text of a settings file. Comments, order and quotes stay."""

import re
from io import StringIO
from typing import Any

from agentforge.definition.settings import ALIASES, is_blank, parts_of
from agentforge.model.errors import InvalidRequest

_INDENTED = re.compile(r"^[^\s#-][^\n]*:[ ]*\n(?:[ ]*#[^\n]*\n)*([ ]+)(-[ ]|[^\s#-])", re.MULTILINE)
"""The first key or element of what is below another key: a file keeps its indentation."""


def changed_settings(text: str, key: str, value: Any) -> str:
    """The text of a file with one key set; comments, order and quotes stay."""
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import YAMLError

    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 100_000
    yaml.explicit_start = bool(re.search(r"^---", text, re.MULTILINE))
    if is_blank(text):
        data, before = CommentedMap(), f"{text.rstrip()}\n\n" if text.strip() else ""
        yaml.explicit_start = False
    else:
        try:
            data = yaml.load(text)
        except (YAMLError, ValueError, TypeError, OverflowError) as error:
            hint = "edit the file by hand"
            raise InvalidRequest(f"the settings can't be changed: {error}", hint=hint) from error
        before = ""
        for found in _INDENTED.finditer(text):
            width = len(found[1])
            yaml.indent(
                **{"sequence": width + 2, "offset": width} if found[2][0] == "-" else {"mapping": width}
            )
    *parents, last = parts_of(_as_written(data, key))
    inner = data
    for parent in parents:
        if inner.get(parent) is None:
            inner[parent] = CommentedMap()
        inner = inner[parent]
        if not isinstance(inner, dict):
            raise InvalidRequest(f"`{parent}` is a single value", hint=f"set `{parent}` itself")
    inner[last] = value
    stream = StringIO()
    yaml.dump(data, stream)
    return before + stream.getvalue()


def _as_written(data: Any, key: str) -> str:
    """The longer way to write a key, if the file has that."""
    for longer, short in ALIASES.items():
        parent, _, name = longer.partition(".")
        inner = data.get(parent)
        if key == short and isinstance(inner, dict) and (name in inner or parent == short):
            return longer
    return key
