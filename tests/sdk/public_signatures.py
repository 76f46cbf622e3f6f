"""What the public modules export, and what the signatures of that mention."""

import ast
import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any

import agentforge
import agentforge.provider
import agentforge.testing

PUBLIC = (agentforge, agentforge.provider, agentforge.testing)
CALLS = ("__init__", "__call__", "__enter__", "__aenter__", "__iter__")
"""The special methods whose signatures a user depends on."""


@cache
def exports() -> dict[str, Any]:
    """Everything that a public module exports, and the members of the modules among it, by name."""
    named = {name: getattr(module, name) for module in PUBLIC for name in module.__all__}
    spaces = [value for value in named.values() if isinstance(value, types.ModuleType)]
    members = {
        name: value for space in spaces for name, value in vars(space).items() if is_member(value, space)
    }
    return {**members, **named}


def is_member(value: Any, space: types.ModuleType) -> bool:
    """Whether a public module defines it: a type by its home, an alias of types by being none."""
    if isinstance(value, type | types.FunctionType):
        return f"{value.__module__}.".startswith(f"{space.__name__}.")
    return is_alias(value)


def is_alias(value: Any) -> bool:
    """Whether it names a union, a literal, a callable or the like."""
    is_generic = typing.get_origin(value) is not None or isinstance(value, types.UnionType)
    return is_generic and not isinstance(value, type)


def is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] == "agentforge"


def mentioned(hint: Any) -> Iterator[type]:
    """The types of ours that an annotation mentions."""
    if isinstance(hint, typing.TypeVar):
        yield from mentioned((hint.__bound__, *hint.__constraints__))
    elif isinstance(hint, list | tuple):
        for part in hint:
            yield from mentioned(part)
    elif typing.get_origin(hint) is not None or isinstance(hint, types.UnionType):
        yield from mentioned((typing.get_origin(hint), *typing.get_args(hint)))
    elif isinstance(hint, type) and is_ours(hint):
        yield hint


def hints(owner: Any) -> Iterator[tuple[str, Any]]:
    """Every annotation of a function, or of the fields, attributes, properties and methods of a class and of
    the classes that it is derived from."""
    if isinstance(owner, type):
        for kind in filter(is_ours, owner.__mro__):
            yield from _hints_of(kind, owner.__name__)
    for where, function in functions(owner):
        yield from _hints_of(function, where)


def _hints_of(target: Any, where: str) -> Iterator[tuple[str, Any]]:
    # A name that is imported for type checkers only must be exported, too.
    for name, hint in typing.get_type_hints(target, localns=exports()).items():
        if not name.startswith("_"):
            yield f"{where}: {name}", hint


def functions(owner: Any) -> Iterator[tuple[str, types.FunctionType]]:
    """The function itself, or those of a class and of the classes that it is derived from."""
    if inspect.isfunction(owner):
        yield owner.__name__, inspect.unwrap(owner)
    elif isinstance(owner, type):
        for kind in filter(is_ours, owner.__mro__):
            yield from ((f"{owner.__name__}.{name}", function) for name, function in methods(kind))


def methods(kind: type) -> Iterator[tuple[str, types.FunctionType]]:
    """The functions behind the public methods and properties of a class."""
    for name, member in vars(kind).items():
        target = member
        if isinstance(member, property):
            target = member.fget
        elif isinstance(member, cached_property):
            target = member.func
        elif isinstance(member, classmethod | staticmethod):
            target = member.__func__
        if isinstance(target, types.FunctionType) and (name in CALLS or not name.startswith("_")):
            yield name, inspect.unwrap(target)


def parameter_aliases(function: types.FunctionType) -> Iterator[str]:
    """The names of aliases in the annotations of its parameters: a caller needs them to annotate what it
    passes. Python evaluates them away, so they are read from the source."""
    source = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(source, ast.FunctionDef | ast.AsyncFunctionDef)
    given = source.args
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        for node in ast.walk(argument):
            if isinstance(node, ast.Name) and is_alias(vars(sys.modules[function.__module__]).get(node.id)):
                yield node.id
