"""Settings of the properties whose examples are expensive."""

from hypothesis import settings

heavy = settings(max_examples=settings().max_examples // 4)
"""A quarter of the examples that the profile asks for."""
