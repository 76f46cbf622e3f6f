"""The controller: a request to a reviewed result, with stages as Python classes, on top of the public API.

pipeline: the controller, its stages and their artifacts. The engine underneath runs, retries, asks and
resumes; nothing here keeps a second state of a run.
"""
