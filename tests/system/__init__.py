"""The system layer on real files and real processes."""
