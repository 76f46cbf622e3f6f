"""AgentForge runs coding agents in durable pipelines.

The public API is `agentforge.sdk`; its main names are re-exported here on first use, so that a
command that needs none of them starts fast.
"""

__version__ = "0.1.0"
