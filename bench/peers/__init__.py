"""The cost of a durable step beside LangGraph, Burr and DBOS: the same step, disk and run for all of them.

workload: the step, and what every worker prints. agentforge, append, burr, dbos, langgraph: the workers, each
a program of its own. places: the folders and file systems; aging: how one gets old. rounds: runs the workers
in turn. figures: rows and targets. report, chart: what people are shown. Run as `python -m bench.peers`.
"""
