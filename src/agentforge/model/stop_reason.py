"""Why the engine of a run in the background stopped without recording the end of the run."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct


class StopReason(Struct, frozen=True, omit_defaults=True):
    session: str
    at: Annotated[datetime, Meta(tz=True)]
    code: str
    """The code of the error."""
    message: str
    hint: str = ""
