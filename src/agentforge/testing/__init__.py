"""The shipped test kit.

mock_session: an isolated session with fixtures, and assertions on iterations, status and events.
ScriptedProvider: an in-process provider that a test scripts with acts such as `says`, `returns` and `fails`.
FakeClock: waiting takes no time. MemoryLog: a log in memory. They pass ClockContract and EventLogContract.
ProviderContract, ProcessProviderContract, EventLogContract, ClockContract: the tests that every adapter of
these ports must pass; they need pytest.
model_server: a scripted model on loopback for real agents.
marked_processes: finds processes that a test left running.
"""

from typing import TYPE_CHECKING, Any

from agentforge.testing.fake_clock import FakeClock
from agentforge.testing.memory_log import MemoryLog
from agentforge.testing.mock_sessions import (
    Fixtures,
    MockSession,
    ObservedSession,
    assert_event_sequence,
    assert_iteration_count,
    assert_state_status,
    mock_session,
)
from agentforge.testing.scripted_provider import (
    Act,
    ScriptedProvider,
    crashes,
    fails,
    raises,
    returns,
    says,
    writes,
    writes_nothing,
    writes_status,
)

if TYPE_CHECKING:
    from agentforge.testing.clock_contract import ClockContract as ClockContract
    from agentforge.testing.event_log_contract import EventLogContract as EventLogContract
    from agentforge.testing.event_log_contract import LogHarness as LogHarness
    from agentforge.testing.provider_contract import LeaveArtifacts as LeaveArtifacts
    from agentforge.testing.provider_contract import MakeRequest as MakeRequest
    from agentforge.testing.provider_contract import ProcessProviderContract as ProcessProviderContract
    from agentforge.testing.provider_contract import ProviderContract as ProviderContract

__all__ = [
    "Act",
    "ClockContract",
    "EventLogContract",
    "FakeClock",
    "Fixtures",
    "LeaveArtifacts",
    "LogHarness",
    "MakeRequest",
    "MemoryLog",
    "MockSession",
    "ObservedSession",
    "ProcessProviderContract",
    "ProviderContract",
    "ScriptedProvider",
    "assert_event_sequence",
    "assert_iteration_count",
    "assert_state_status",
    "crashes",
    "fails",
    "mock_session",
    "raises",
    "returns",
    "says",
    "writes",
    "writes_nothing",
    "writes_status",
]

_CONTRACTS = {
    "ClockContract": "clock_contract",
    "EventLogContract": "event_log_contract",
    "LogHarness": "event_log_contract",
    "LeaveArtifacts": "provider_contract",
    "MakeRequest": "provider_contract",
    "ProcessProviderContract": "provider_contract",
    "ProviderContract": "provider_contract",
}
"""The modules that import pytest, which a program with a scripted provider doesn't need."""


def __getattr__(name: str) -> Any:
    if name not in _CONTRACTS:
        raise AttributeError(f"module 'agentforge.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"agentforge.testing.{_CONTRACTS[name]}"), name)
