"""The public API, and the only place that wires adapters to ports."""
