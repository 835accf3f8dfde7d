"""Patterns of error messages without the user's source lines, which may hold the expected words themselves."""

from __future__ import annotations


def reason(words: str) -> str:
    """Return a pattern for a message with these words outside of quoted source lines, which are indented."""
    return rf"(?m)^[^ \n].*(?:{words})"
