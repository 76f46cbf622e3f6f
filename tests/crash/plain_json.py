"""JSON without the module of that name, whose import takes as long as the start of the interpreter."""

from _json import encode_basestring_ascii as quoted


def text_of(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)}: {text_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else repr(value)
