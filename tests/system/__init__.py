"""The host layer on real files and real processes."""
