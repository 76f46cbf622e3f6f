"""This machine: its clock, disk, desktop, tmux and programs."""
