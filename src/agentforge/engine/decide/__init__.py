"""What should happen next, from the plan and the state. `run` is the entry; gates are ordered tables."""
