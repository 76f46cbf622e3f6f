"""The cost of a durable step compared with LangGraph, Burr and DBOS: the same step and disk for all of them.

workload: the step, and the output of every worker. agentforge, append, burr, dbos, langgraph: the workers,
each a separate program. places: the folders and file systems; aging: ages a file system. rounds: runs the
workers in turn. figures: rows and targets. report, chart: tables and a chart. Run as `python -m bench.peers`.
"""
