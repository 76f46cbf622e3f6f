"""The executors of the built-in stages, for programs that call a model directly. An agent runs the same
stages from their folders."""
