"""Repetition found in tapes: loops that were written out, as blocks of equal operations again."""
