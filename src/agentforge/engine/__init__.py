"""The pure core. No clock, no files, no randomness.

evolve: the state after an event. decide: the facts to record now, and the work that should be running. Both
are total: every prefix of a log is a state that `decide` accepts. legal: what may be recorded. nodes: the
order of nodes, and how they are recognised in another plan; replan: how a run continues with one. checks:
what the program of a check left. normalise, claims: what an agent's result may say. conditions: whether a
hook is called. rehearsal: whether a past run would take the same course.
"""
