"""Handling of Ctrl-C and termination signals, for programs that drive runs."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentforge.adapters.host.machine import is_shutting_down
from agentforge.model.failure import FailureKind
from agentforge.model.state import MACHINE_SHUTDOWN
from agentforge.sdk.engine import Engine

SECOND_SIGNAL_SECONDS = 5.0
STOPPING = (signal.SIGINT, signal.SIGTERM)
CLOSING = signal.SIGHUP
"""The signal of a terminal or tmux session that is being closed."""


class StopSignal:
    """The signal that requested the stop, or None."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.at = 0.0
        self.is_over = False
        """Whether the block was left: a handler may still be called that the event loop has scheduled."""


OnStop = Callable[[bool], None]
"""Called for each signal; True if agents are stopped immediately."""


@contextmanager
def stop_on_signals(engine: Engine, on_stop: OnStop | None = None) -> Iterator[StopSignal]:
    """The first signal lets agents finish within the stop grace; a second one within 5 s stops them
    immediately. A closing terminal may send several, so its signal is never a second one.

    If the machine is shutting down, the runs are paused for that reason, and `recover` continues them.
    While the engine drives no run yet, a signal cancels the calling task.
    """
    stopped = StopSignal()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def stop(number: signal.Signals) -> None:
        if stopped.is_over:
            return
        first = stopped.signal is None
        now = engine._clock.monotonic()
        is_in_time = now - stopped.at <= SECOND_SIGNAL_SECONDS
        again = not first and is_in_time and number is not CLOSING
        stopped.signal, stopped.at = number, now
        driving = True
        # A late second signal doesn't restart the stop grace.
        if first or again:
            cause = FailureKind.SIGNAL_INTERRUPT.value
            # It blocks the event loop while it asks, so that no attempt starts in the meantime.
            if number is not signal.SIGINT and is_shutting_down(engine.environ, engine.project):
                cause = MACHINE_SHUTDOWN
            driving = engine.interrupt(cause, now=again)
        if on_stop is not None:
            on_stop(again)
        if not driving and task is not None:
            task.cancel()

    # `nohup` ignores SIGHUP in order to run without the terminal.
    closing = () if signal.getsignal(CLOSING) is signal.SIG_IGN else (CLOSING,)
    handled = (*STOPPING, *closing)
    for number in handled:
        loop.add_signal_handler(number, stop, number)
    try:
        yield stopped
    finally:
        stopped.is_over = True
        for number in handled:
            loop.remove_signal_handler(number)
