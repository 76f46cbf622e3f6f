"""Runs and projects of the agent-pipelines shell engine: its logs, importing its runs, `migrate check`."""
