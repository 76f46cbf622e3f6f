"""Models called directly, in a tool loop of our own. A *task* is what to do and with what; the *loop* talks
to the model and runs its tools within the *workspace*; an *outcome* is what came of it. `program` is all of
it as a program that the supervisor can run. Needs the extra `api`: pydantic-ai is imported late."""
