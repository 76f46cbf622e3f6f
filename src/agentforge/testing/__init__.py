"""The shipped test kit.

mock_session: an isolated session with fixtures, and assertions on iterations, status and events.
ScriptedProvider: an agent inside the engine that does what a test says. FakeClock: waits cost no time.
event_log_contract, provider_contract: what every adapter of these ports has to pass.
memory_log: a log in memory, which passes the first of them.
model_server: a scripted model on loopback, against which real agents run.
marked_processes: finds what a test left running.
"""

from agentforge.testing.fake_clock import FakeClock
from agentforge.testing.mock_sessions import (
    MockSession,
    ObservedSession,
    assert_event_sequence,
    assert_iteration_count,
    assert_state_status,
    mock_session,
)
from agentforge.testing.scripted_provider import ScriptedProvider

__all__ = [
    "FakeClock",
    "MockSession",
    "ObservedSession",
    "ScriptedProvider",
    "assert_event_sequence",
    "assert_iteration_count",
    "assert_state_status",
    "mock_session",
]
