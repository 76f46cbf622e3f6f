"""The public API, and the only place that wires adapters to ports.

Engine: run, resume, recover, pause, cancel, watch (async). SyncEngine: the same without a loop.
Runs: looking at runs without driving them. Leases, registry, follower and runner are the engine's parts.
"""
