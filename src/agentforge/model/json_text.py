"""JSON that an agent, a person or another machine may have written."""

import msgspec

NOT_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What decoding raises: for another structure, for bytes that aren't UTF-8, and for deep nesting."""
