"""The shipped test kit.

mock_session: an isolated session with fixtures, and assertions on iterations, status and events.
ScriptedProvider: an in-process provider that a test scripts. FakeClock: waiting takes no time.
event_log_contract, provider_contract: the tests that every adapter of these ports must pass.
memory_log: a log in memory, which passes event_log_contract.
model_server: a scripted model on loopback for real agents.
marked_processes: finds processes that a test left running.
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
