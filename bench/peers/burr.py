"""Burr: an action that leads to itself, with the SQLite persister; the tracking client is left out."""

import sqlite3
from pathlib import Path
from typing import Any

from burr.core import ApplicationBuilder, State, action, expr
from burr.core.persistence import SQLitePersister

from bench.peers.workload import Turns, worker


@action(reads=["done"], writes=["done", "result"])
def step(state: State, turns: Turns) -> State:
    return state.update(done=state["done"] + 1, result=turns.step())


@action(reads=["done"], writes=[])
def end(state: State) -> State:
    return state


def run(folder: Path, steps: int, turns: Turns) -> dict[str, Any]:
    connection = sqlite3.connect(folder / "burr.sqlite")
    connection.execute("PRAGMA synchronous=FULL")
    persister = SQLitePersister(str(folder / "burr.sqlite"), connection=connection)
    persister.initialize()
    application = (
        ApplicationBuilder()
        .with_actions(step.bind(turns=turns), end)
        .with_transitions(("step", "step", expr(f"done < {steps}")), ("step", "end"))
        .with_identifiers(app_id="bench")
        .with_state(done=0)
        .with_entrypoint("step")
        .with_state_persister(persister)
        .build()
    )
    turns.begin()
    application.run(halt_before=["end"])
    took = turns.end()
    assert connection.execute("SELECT count(*) FROM burr_state").fetchone() == (steps,)
    connection.close()
    return took


if __name__ == "__main__":
    worker("apache-burr", run)
