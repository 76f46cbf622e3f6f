"""Ctrl-C and termination, for a program whose main job is to drive runs."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from agentforge.sdk.engine import Engine

AGAIN_WITHIN = 5.0
STOPPING = (signal.SIGINT, signal.SIGTERM)


class Stopped:
    """Which signal asked to stop, if any."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.at = 0.0


@contextmanager
def stop_on_signals(engine: Engine) -> Iterator[Stopped]:
    """The first signal lets agents finish within the grace; a second within 5 s ends them at once."""
    stopped = Stopped()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        again = stopped.signal is not None and monotonic() - stopped.at <= AGAIN_WITHIN
        stopped.signal, stopped.at = number, monotonic()
        engine.interrupt(now=again)

    for number in STOPPING:
        loop.add_signal_handler(number, stop, number)
    try:
        yield stopped
    finally:
        for number in STOPPING:
            loop.remove_signal_handler(number)
