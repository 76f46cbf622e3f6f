"""The domain model. Imports no other package of agentforge and does no I/O.

run: one execution of a plan, named by its session. plan: the compiled pipeline, pinned per run.
node: a position in the plan. iteration: one execution of a stage's work. attempt: one execution of an
iteration. fact: something that happened, not yet recorded. event: a recorded fact.
"""
