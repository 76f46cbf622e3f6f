"""What the compiler can read: files, folder listings, the environment and the clock; and what checks the
schemas that it reads."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

MAX_SOURCE_BYTES = 1_000_000
"""The largest definition that is accepted."""

MAX_INPUTS = 10_000
"""How many files one input may name."""


class SchemaProblem(Struct, frozen=True):
    message: str
    path: tuple[str | int, ...] = ()
    """Where in the schema."""


class Sources(Protocol):
    @property
    def project(self) -> str:
        """The project's root, absolute."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def builtin(self) -> str:
        """The root of the built-in `stages/` and `pipelines/`, absolute."""

    def read(self, path: str) -> str | None:
        """The file's text, or None if the file is missing or not a regular file. Of a larger file, as much as
        shows that it is larger than MAX_SOURCE_BYTES."""

    def is_dir(self, path: str) -> bool: ...

    def listing(self, path: str) -> Sequence[str]:
        """Names in a folder, sorted; empty if the folder is missing."""

    def expand(self, pattern: str) -> Sequence[str] | None:
        """The files that an input names: a file, a glob, or a folder's texts; absolute, sorted. None: more
        than MAX_INPUTS, or too many files and folders to search."""

    def resolve(self, path: str) -> str | None:
        """The path with all links resolved, or None if nothing exists there."""

    def schema_problem(self, schema: Any) -> SchemaProblem | None:
        """Why artifacts can't be validated with the schema."""

    def now(self) -> datetime: ...
