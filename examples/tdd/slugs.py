"""Texts in the form in which they appear on pages and in addresses."""


def title(text: str) -> str:
    return " ".join(word.capitalize() for word in text.split())
