"""Tasks for models that stages call themselves: running one, and reading its reply."""
