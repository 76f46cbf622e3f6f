"""What performs the tasks of a run, one file per kind.

prepare, manifest: on the spot. queue: asked and answered. agent, judge: calls of a provider (`call`), which
are reattached to after a crash and can be ended.
"""
