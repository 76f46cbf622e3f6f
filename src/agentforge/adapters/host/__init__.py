"""This machine: its processes, files, clock, desktop, tmux and programs."""
