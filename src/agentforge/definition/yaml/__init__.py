"""YAML with positions: text to a tree."""
