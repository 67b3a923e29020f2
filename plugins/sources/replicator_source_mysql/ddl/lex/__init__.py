"""The text of a statement as tokens."""
