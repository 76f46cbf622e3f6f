"""An engine for commands that control runs without a display."""

from agentforge import SyncEngine
from agentforge.cli.invocation import Invocation
from agentforge.cli.log_output import set_up_logs


def open_engine(call: Invocation) -> SyncEngine:
    set_up_logs(call)
    return SyncEngine(call.root)
