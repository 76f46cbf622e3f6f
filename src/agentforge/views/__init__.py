"""What people and tools look at, folded from the log. Pure."""
