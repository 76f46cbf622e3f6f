"""The first files of a project: what `agentforge init` finds and writes."""
