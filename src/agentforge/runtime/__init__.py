"""The driver and what it needs to act: the only code, with the adapters, that does I/O."""
