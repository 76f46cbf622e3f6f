"""What is to run once an agent is gone, where its supervisor can't any more."""

import logging

import msgspec

from agentforge.model.layout import AttemptLayout
from agentforge.system import files, programs

log = logging.getLogger("agentforge.run")

AFTER_SECONDS = 10.0


async def run_after(place: AttemptLayout, seconds: float = AFTER_SECONDS) -> None:
    """Run it, if the attempt has such a program; running it twice does no harm."""
    argv = _argv(place)
    if not argv:
        return
    ended = await programs.run_async(programs.Program(argv, seconds))
    if ended.reason is programs.NoExit.TIMED_OUT:
        log.warning("%s, which ends what an agent left, took longer than %g s", " ".join(argv), seconds)
    elif ended.reason:
        log.warning("can't run %s, which ends what an agent left: %s", argv[0], ended.problem)


def _argv(place: AttemptLayout) -> tuple[str, ...]:
    content = files.read_bytes(place.after)
    if content is None:
        return ()
    try:
        return msgspec.json.decode(content, type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()  # Its writer died before any supervisor was started.
