"""Table definitions by log position."""
