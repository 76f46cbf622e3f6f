"""Sandboxes that confine agent programs.

bwrap, docker: the sandboxes. mounts: how each path is visible, and in which order. builtin: all of them by
name.
"""
