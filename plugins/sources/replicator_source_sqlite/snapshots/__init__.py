"""Snapshots: copies of tables at one position of the changelog, read in chunks."""
