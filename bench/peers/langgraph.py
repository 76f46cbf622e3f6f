"""LangGraph: a node that leads to itself, with the SQLite checkpointer, synced before the next step."""

import sqlite3
from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.peers.workload import Turns, worker


class State(TypedDict):
    done: int
    result: dict[str, str]


def run(folder: Path, steps: int, turns: Turns) -> dict[str, Any]:
    # The saver serializes its use of the connection; its own constructor passes the same flag.
    connection = sqlite3.connect(folder / "checkpoints.sqlite", check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous=FULL")
    graph: Any = StateGraph(State)
    graph.add_node("step", lambda state: {"done": state["done"] + 1, "result": turns.step()})
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["done"] < steps else END)
    compiled = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "bench"}, "recursion_limit": steps + 10}
    start = {"done": 0, "result": {}}
    turns.begin()
    compiled.invoke(start, config, durability="sync")
    took = turns.end()
    assert compiled.get_state(config).values["done"] == steps
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    connection.close()
    return took


if __name__ == "__main__":
    worker("langgraph", run)
