"""The driver and what it needs to act: with the adapters, the only code that does I/O.

driver: the loop of a run. journal: records facts and folds them. tasks: the performers. conclusion: from an
agent's output to one fact; provider_result: what a provider returned. supervision: starting the supervisor,
reattaching to it, ending what it left; supervisor: the program itself. attempt_folder, left_files: the
files of an attempt, and what was found in their places. confinement, git_guard: what a confined program may
touch, and what it left for git. controls, answers: what people ask and answer, as files. hook_answer: what
a hook may answer. view_files, escalations: the files that are kept up to date. recorder: cassettes.
notifier: when someone is told. run_proof, state_folder: what the user's state folder keeps about runs.
"""
