"""The runs of a project: finding, starting, resuming and driving them."""
