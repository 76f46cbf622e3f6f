"""`log verify`: everything that can be said about a run's log, also where the run itself can't be shown."""

from agentforge.adapters.jsonl_log import LogReport, verify
from agentforge.sdk.runs import Runs

__all__ = ["LogReport", "verify_log"]


def verify_log(runs: Runs, session: str) -> LogReport:
    runs.log(session)
    return verify(runs.layout(session).log)
