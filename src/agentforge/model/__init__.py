"""The words of the domain. Imports nothing of ours and does no I/O.

run: one execution of a plan, named by its session. plan: the compiled pipeline, pinned per run.
node: a place in the plan. iteration: one execution of a stage's work. attempt: a try at the same
iteration. fact: something that happened, not yet recorded. event: a recorded fact.
"""
