"""The tools that a model can call."""
