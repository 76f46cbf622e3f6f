"""What the engine costs, each cost beside its floor: the least that the same machine could do it for.

measure: samples against a floor. floors: the floors. iteration, log, startup, long_runs: what is measured.
report: the table and the JSON. Run as `python -m bench`.
"""
