"""Sandboxes that confine agent programs.

bwrap, docker: the sandboxes. mounts: how each path is visible, and in which order. programs: what programs
need to run.
"""
