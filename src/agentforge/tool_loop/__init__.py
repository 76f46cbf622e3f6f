"""Calls models directly in a tool loop. A *task* defines the work and its tools; the *loop* talks to the
model and runs its tools in the *workspace*; an *outcome* is the result. `program` is the loop as a program
that the supervisor can run. Needs the extra `api`: pydantic-ai is imported late."""
