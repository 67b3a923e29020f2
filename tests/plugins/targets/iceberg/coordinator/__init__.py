"""Commits that the Iceberg target makes in its own time."""
