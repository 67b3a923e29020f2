"""Saved offsets: their file format, their store and how long they are kept."""
