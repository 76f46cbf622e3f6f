"""DBOS: a workflow that calls a step in a loop, with the SQLite system database."""

from pathlib import Path
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSConfig
from sqlalchemy import event

from bench.peers.workload import Turns, worker


@event.listens_for(sqlalchemy.Engine, "connect")
def _sync_fully(connection: object, _: object) -> None:
    connection.execute("PRAGMA synchronous=FULL")  # type: ignore[attr-defined]


def run(folder: Path, steps: int, turns: Turns) -> dict[str, Any]:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}",
        "log_level": "ERROR",
        "enable_otlp": False,
    }

    @DBOS.step()
    def step() -> dict[str, str]:
        return turns.step()

    @DBOS.workflow()
    def workflow(count: int) -> int:
        return sum(1 for _ in range(count) if step())

    DBOS(config=config)
    DBOS.launch()
    turns.begin()
    done = workflow(steps)
    took = turns.end()
    assert done == steps
    DBOS.destroy()
    return took


if __name__ == "__main__":
    worker("dbos", run)
