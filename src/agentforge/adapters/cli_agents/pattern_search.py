"""Searches texts for regular expressions. Also a program of its own: some expressions take exponential time,
and a search can only be ended with its process."""

import json
import re
import sys
from collections.abc import Sequence

PatternMatches = tuple[int, int]
"""The index of the first pattern that matches, and where the last match of any pattern begins; -1: none."""


def search(patterns: Sequence[str], flags: int, texts: Sequence[str]) -> list[PatternMatches]:
    """For each text."""
    compiled = [re.compile(pattern, flags) for pattern in patterns]
    found = []
    for text in texts:
        starts = [max((match.start() for match in one.finditer(text)), default=-1) for one in compiled]
        first = next((index for index, start in enumerate(starts) if start >= 0), -1)
        found.append((first, max(starts, default=-1)))
    return found


if __name__ == "__main__":
    json.dump(search(*json.load(sys.stdin)), sys.stdout)
