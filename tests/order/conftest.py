"""Runs are made in memory."""

from tests.scratch import folder_in_memory

__all__ = ["folder_in_memory"]
