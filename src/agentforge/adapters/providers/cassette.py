"""Reading a cassette's file."""

from agentforge.host import files
from agentforge.model.cassette import Cassette, parse_cassette
from agentforge.model.errors import ProviderUnusable, StorageFailed


def load_cassette(path: str) -> Cassette:
    """Raises ProviderUnusable with every error, each with its line."""
    try:
        text = files.read_existing(path).decode("utf-8")
    except (StorageFailed, UnicodeDecodeError) as error:
        why = error.message if isinstance(error, StorageFailed) else f"{path}: not UTF-8 text"
        raise ProviderUnusable(
            f"the cassette can't be read: {why}", hint="correct `cassette` in the provider's config"
        ) from error
    return parse_cassette(text, path)
