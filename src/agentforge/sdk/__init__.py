"""The public API.

Engine: run, resume, recover, pause, cancel, watch (async). SyncEngine: the same without an event loop.
"""
