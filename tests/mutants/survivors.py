"""Generated mutations that no test can catch: they change nothing that anybody can observe."""

SURVIVORS: dict[str, dict[str, str]] = {}
"""The reasons, by function as `tests/mutants/generated.py` names it, and by the line it writes."""
