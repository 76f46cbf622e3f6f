"""The runs of a project: finding, starting, resuming and driving them.

context: what the runs of an engine share. start, resume, controls, answers, removal: what people do with a
run. leases: locks, owners, archived runs; lock_folder: their files. trust, caller: which runs are driven,
and what a process may decide. compilation: recompiling, and comparing courses. assembly, runner: the parts
of one run, and driving it. lookup, updates, snapshot: reading runs without driving them. work, comparison:
what agents did, and what they changed. replay: what a replay answers. completions: what a shell completes.
"""
