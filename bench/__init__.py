"""The costs of the engine, each compared with its floor: the minimum on the same machine.

measure: samples against a floor. floors: the floors. iteration, log, startup, growth: what is measured.
report: the table and the JSON. Run as `python -m bench`.
"""
