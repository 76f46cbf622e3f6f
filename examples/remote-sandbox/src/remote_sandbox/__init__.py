"""Agents in sandboxes of a remote service, for AgentForge.

provider: what the engine talks to; says which program to run and what its end means.
program: that program; it lives as long as the sandbox, which it makes, fills, uses, empties and ends.
service: the service's HTTP interface. workspace: which files travel, and where they may land.
"""
