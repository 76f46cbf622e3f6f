"""Addresses for recipes."""


def slug(title):
    """A recipe's address, made from its title."""
    return title.lower().replace(" ", "-")
