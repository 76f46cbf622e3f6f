"""Agents that are command-line programs: what all of them share."""
