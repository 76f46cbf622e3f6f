"""Performers of a run's tasks, one file per kind.

prepare: synchronous, as is the manifest (`view_files`). queue: a query. agent, judge: calls of a provider
(`call`), which can be reattached to after a crash and can be ended. check, hook: commands (`script`), called
like a provider.
"""
