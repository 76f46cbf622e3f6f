"""Sandboxes that confine agent programs.

bwrap, docker: the sandboxes. mounts: how each path is visible, and in which order, and what programs need to
run.
"""
