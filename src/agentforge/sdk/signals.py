"""Ctrl-C and termination, for a program whose main job is to drive runs."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from agentforge.sdk.engine import Engine

AGAIN_WITHIN = 5.0
STOPPING = (signal.SIGINT, signal.SIGTERM)
CLOSING = signal.SIGHUP
"""What a terminal or a tmux session sends that is being closed."""


class StopSignal:
    """Which signal asked to stop, if any."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.at = 0.0


Told = Callable[[bool], None]
"""Hears of each signal; True: agents are ended at once."""


@contextmanager
def stop_on_signals(engine: Engine, told: Told | None = None) -> Iterator[StopSignal]:
    """The first signal lets agents finish within the grace; a second within 5 s ends them at once.

    While the engine drives nothing yet, a signal cancels the task that called this.
    """
    stopped = StopSignal()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def stop(number: signal.Signals) -> None:
        first = stopped.signal is None
        again = not first and monotonic() - stopped.at <= AGAIN_WITHIN
        stopped.signal, stopped.at = number, monotonic()
        # A late second signal doesn't ask anew: that would only put the end off.
        driving = engine.interrupt(now=again) if first or again else True
        if told is not None:
            told(again)
        if not driving and task is not None:
            task.cancel()

    # `nohup` means to go on without the terminal.
    closing = () if signal.getsignal(CLOSING) is signal.SIG_IGN else (CLOSING,)
    heeded = (*STOPPING, *closing)
    for number in heeded:
        loop.add_signal_handler(number, stop, number)
    try:
        yield stopped
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
