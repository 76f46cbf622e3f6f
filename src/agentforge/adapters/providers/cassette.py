"""Reading a cassette's file."""

from pathlib import Path

from agentforge.model.cassette import Cassette, parse_cassette
from agentforge.model.errors import ProviderUnusable


def load_cassette(path: str) -> Cassette:
    """Raises ProviderUnusable with every error, each with its line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ProviderUnusable(
            f"cassette {path} can't be read: {why}", hint="correct `cassette` in the provider's config"
        ) from error
    return parse_cassette(text, path)
